"""Reads of turns by id: what the API and the command line show of a turn. Always within one tenant.

All go to the writer (never a replica): a client that got a 202 finds its turn.

The archive is read after the table, only for turns that the table does not have: a turn moves only from the table to the
archive, in one commit, so the two reads can't miss it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, TypeVar
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.archive.reads import (
    READ_ARCHIVED,
    READ_ARCHIVED_STANDINGS,
    WITH_MESSAGES,
    TurnKey,
    read_archived,
)
from turnstile.backends.postgres.database import Database
from turnstile.turn.status import TurnStatus

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One row of the status table, with its messages."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int | None
    queue: str
    status: TurnStatus
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    worker_id: str | None
    execute_at: datetime | None
    expires_at: datetime
    timeout_seconds: float | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    error_class: str | None
    error: str | None
    dead_lettered_at: datetime | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    kind: str
    """`turn`, or `compensation`."""
    parent_turn_id: UUID | None
    """The turn whose child or compensation it is."""
    joining: Sequence[UUID] | None
    """The children that it waits for at present."""
    metadata: Mapping[str, Any]
    created_at: datetime
    queued_at: datetime | None
    """When it began to wait in its generation: its submit, its schedule or its redrive. None in an old archive."""
    first_started_at: datetime | None
    """When its first attempt of the generation started."""
    started_at: datetime | None
    """When its present or last attempt started."""
    finished_at: datetime | None
    halted_by: UUID | None = None
    """The FAILED turn, perhaps this one, that halts the session: none of its turns is claimed."""
    dropped_at: datetime | None = None
    """When an operator gave the FAILED turn up (`turnstile dlq drop`)."""
    dropped_by: str | None = None
    inputs: Sequence[Any] | None = None
    """The user's input: one content, or several that were merged. None in a list."""
    output: Any = None
    """The reply's content; None until SUCCEEDED. None in a list: a page of a hundred replies of 1 MiB would be too large."""
    webhook: Mapping[str, Any] | None = None
    """The state of its completion webhook (tries, delivered_at, next_try_at, error); None until it ends, or if it has none."""


_HALTED_BY: LiteralString = """
    (SELECT s.halted_by FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) AS halted_by"""

_READ: LiteralString = f"""
SELECT {
    WITH_MESSAGES.format(
        messages="(SELECT * FROM messages WHERE turn_id = t.id)",
        webhooks="(SELECT * FROM webhooks WHERE turn_id = t.id)",
    )
}, {_HALTED_BY}
  FROM turns t WHERE t.id = ANY (%(ids)s::uuid[])
"""

_STANDINGS: LiteralString = """
SELECT id, tenant_id, session_id, status, attempt, fence, trace_id FROM turns WHERE id = ANY (%(ids)s::uuid[])
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a turn that is polled while a client waits for it."""

    id: UUID
    tenant_id: str
    session_id: str
    status: TurnStatus
    attempt: int
    fence: int
    """The fence of its last claim; 0 if there was none."""
    trace_id: str


async def read_standings(database: Database, wanted: Sequence[TurnKey]) -> list[Standing | None]:
    """The state of many turns, in the order of `wanted`; None if the tenant has no such turn."""
    return await _find(database, _STANDINGS, READ_ARCHIVED_STANDINGS, wanted, _standing)


async def read_turns(database: Database, wanted: Sequence[TurnKey]) -> list[TurnRecord | None]:
    """Many turns with their replies, in the order of `wanted`; None if the tenant has no such turn."""
    return await _find(database, _READ, READ_ARCHIVED, wanted, record)


async def read_turn(database: Database, tenant_id: str, turn_id: UUID) -> TurnRecord | None:
    """One turn with its reply; None if the tenant has no such turn."""
    return (await read_turns(database, [TurnKey(tenant_id, turn_id)]))[0]


async def _find(
    database: Database,
    in_table: LiteralString,
    in_archive: LiteralString,
    wanted: Sequence[TurnKey],
    answer: Callable[[DictRow], Answer],
) -> list[Answer | None]:
    rows = await database.fetch(in_table, {"ids": [key.id for key in wanted]})
    found = {TurnKey(row["tenant_id"], row["id"]): row for row in rows}
    found |= await read_archived(database, in_archive, [key for key in wanted if key not in found])
    return [answer(found[key]) if key in found else None for key in wanted]


def record(row: Mapping[str, Any]) -> TurnRecord:
    """From a row of `turns` with `halted_by`, and perhaps more."""
    fields = {name: row[name] for name in TurnRecord.__dataclass_fields__ if name in row}
    return TurnRecord(**{**fields, "status": TurnStatus(row["status"])})


def _standing(row: DictRow) -> Standing:
    return Standing(**{**row, "status": TurnStatus(row["status"])})
