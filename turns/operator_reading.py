"""What an operator reads, who holds the database's credentials: turns of all tenants.

Apart from `reading.py` on purpose: what the API calls cannot be asked for another tenant's turns, not even by mistake.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from sqlalchemy import ColumnElement, select

from turns.archived_turns import OF_TURN
from turns.database import Database
from turns.reading import TurnRecord, query_list, read_turn
from turns.schema import sessions, turns
from turns.status import TurnStatus

FIND_TENANT: LiteralString = f"""
SELECT tenant_id FROM turns WHERE id = %(id)s UNION ALL SELECT a.tenant_id FROM {OF_TURN}
"""

SAID: LiteralString = f"""
SELECT ordinal, role, kind, content, created_at FROM messages WHERE turn_id = %(id)s
UNION ALL
SELECT m.ordinal, m.role, m.kind, m.content, m.created_at
  FROM {OF_TURN} CROSS JOIN LATERAL jsonb_populate_recordset(NULL::messages, a.messages) m
 ORDER BY ordinal
"""

STATUSES: LiteralString = "SELECT id, status FROM turns WHERE id = ANY (%(ids)s::uuid[])"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFilter:
    """Which turns to list. Everything left out matches."""

    tenant_id: str | None = None
    session_id: str | None = None
    status: TurnStatus | None = None
    queue: str | None = None
    halting: bool = False
    """Only those that halt their session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a turn."""

    ordinal: int
    role: str
    kind: str
    content: Any
    created_at: datetime


async def list_turns_of_all(
    database: Database, wanted: OperatorFilter, *, limit: int, before: UUID | None = None
) -> list[TurnRecord]:
    """Turns newest first, without their replies, `limit` of them from behind `before`. Raises ListTooBroadError."""
    terms: list[ColumnElement[bool]] = []
    if wanted.tenant_id is not None:
        terms.append(turns.c.tenant_id == wanted.tenant_id)
    if wanted.session_id is not None:
        terms.append(turns.c.session_id == wanted.session_id)
    if wanted.queue is not None:
        terms.append(turns.c.queue == wanted.queue)
    if wanted.halting:
        terms.append(turns.c.id.in_(select(sessions.c.halted_by).where(sessions.c.halted_by.is_not(None))))
    if before is not None:
        terms.append(turns.c.id < before)
    rows = await query_list(database, terms, wanted.status, (turns.c.id.desc(),), limit)
    return [TurnRecord(**{**row, "status": TurnStatus(row["status"])}) for row in rows]


async def find_tenant(database: Database, turn_id: UUID) -> str | None:
    """Whose turn it is; None if there is no such turn."""
    rows = await database.fetch(FIND_TENANT, {"id": turn_id})
    return rows[0]["tenant_id"] if rows else None


async def read_turn_of_any(database: Database, turn_id: UUID) -> TurnRecord | None:
    """One turn with its reply, whoever's it is."""
    tenant_id = await find_tenant(database, turn_id)
    return None if tenant_id is None else await read_turn(database, tenant_id, turn_id)


async def read_said(database: Database, turn_id: UUID) -> list[Said]:
    """All that was said in a turn, its partial replies included."""
    return [Said(**row) for row in await database.fetch(SAID, {"id": turn_id})]


async def read_statuses(database: Database, turn_ids: Sequence[UUID]) -> dict[UUID, TurnStatus]:
    """The status of each of these turns that exists."""
    rows = await database.fetch(STATUSES, {"ids": list(turn_ids)})
    return {row["id"]: TurnStatus(row["status"]) for row in rows}
