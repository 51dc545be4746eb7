"""The attempts of a turn, as its claims and settlements recorded them."""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.archive.reads import IN_EITHER
from turnstile.backends.postgres.database import Database
from turnstile.sealing.contents import Contents
from turnstile.sealing.place import ERROR, TRACEBACK, Place

READ: LiteralString = IN_EITHER.format(table="turn_attempts", archived="attempts", order="fence")

RELEASE: LiteralString = """coalesce(
    (SELECT a.release FROM turn_attempts a WHERE a.turn_id = {turn}.id ORDER BY a.fence DESC LIMIT 1), '')"""
"""The handler's release of the last ended attempt of `{turn}`; empty without one, and if its worker named none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """One claim that has ended: finished, lost or given back. A claim under way is only in the turn's row."""

    attempt: int
    fence: int
    generation: int
    worker_id: str | None
    release: str
    due_at: datetime | None
    """When it could have begun: the turn's `queued_at`, or the end of the wait of its retry or snooze."""
    started_at: datetime | None
    finished_at: datetime
    outcome: str
    error_class: str | None
    error: str | None
    """The error's text, or the reason of a snooze or a hand-back."""
    traceback: str | None


async def read_attempts(database: Database, tenant_id: str, turn_id: UUID) -> list[EndedAttempt]:
    """The ended attempts of all generations of a turn, in the order of their fences."""
    rows = await database.fetch(READ, {"tenant": tenant_id, "id": turn_id})
    return [_attempt(row, tenant_id, database.contents) for row in rows]


def _attempt(row: DictRow, tenant_id: str, contents: Contents) -> EndedAttempt:
    whose = (tenant_id, row["session_id"], row["turn_id"])
    shown = {column: contents.show(row[column], Place(*whose, column)) for column in (ERROR, TRACEBACK)}
    return EndedAttempt(**{**{name: row[name] for name in EndedAttempt.__dataclass_fields__}, **shown})
