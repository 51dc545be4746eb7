"""Reads of turns by id: what the API and the command line show of a turn. Always within one tenant.

All go to the writer (never a replica): a client that got a 202 finds its turn.

The archive is read after the table, only for turns that the table does not have: a turn moves only from the table to the
archive, in one commit, so the two reads can't miss it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import LiteralString, TypeVar
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
from turnstile.queries.opened_record import open_record
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

Result = TypeVar("Result")

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
    """Many turns with their replies, in the order of `wanted`; None if the tenant has no such turn.

    An input or a reply that this process can't open is an Unopened.
    """

    def opened(row: DictRow) -> TurnRecord:
        return open_record(TurnRecord.of(row), database.contents)

    return await _find(database, _READ, READ_ARCHIVED, wanted, opened)


async def read_turn(database: Database, tenant_id: str, turn_id: UUID) -> TurnRecord | None:
    """One turn with its reply; None if the tenant has no such turn."""
    return (await read_turns(database, [TurnKey(tenant_id, turn_id)]))[0]


async def _find(
    database: Database,
    in_table: LiteralString,
    in_archive: LiteralString,
    wanted: Sequence[TurnKey],
    answer: Callable[[DictRow], Result],
) -> list[Result | None]:
    # The statement reads by ids alone. The tenants are for the row-level security, which hides the rows of others.
    keys = {"ids": [key.id for key in wanted], "tenants": [key.tenant_id for key in wanted]}
    rows = await database.fetch(in_table, keys)
    found = {TurnKey(row["tenant_id"], row["id"]): row for row in rows}
    found |= await read_archived(database, in_archive, [key for key in wanted if key not in found])
    return [answer(found[key]) if key in found else None for key in wanted]


def _standing(row: DictRow) -> Standing:
    return Standing(**{**row, "status": TurnStatus(row["status"])})
