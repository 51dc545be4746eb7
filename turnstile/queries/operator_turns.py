"""Reads for an operator, who has the database's credentials: turns of all tenants.

Separate from `queries.turns` on purpose: the API can't read another tenant's turns, not even by mistake.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from sqlalchemy import select

from turnstile.archive.reads import IN_TABLE, OF_TURN
from turnstile.backends.postgres.database import Database
from turnstile.queries.tables import sessions, turns
from turnstile.queries.turns import TurnRecord, having, query_list, read_turn
from turnstile.turn.status import TurnStatus

FIND_TENANTS: LiteralString = """
SELECT tenant_id, NULL AS ended_at FROM turns WHERE id = %(id)s
UNION ALL
SELECT tenant_id, ended_at FROM archived_turns WHERE id = %(id)s
 ORDER BY ended_at DESC NULLS FIRST
"""

MESSAGES: LiteralString = f"""
SELECT ordinal, role, kind, content, created_at FROM messages WHERE turn_id = %(id)s AND {IN_TABLE}
UNION ALL
SELECT m.ordinal, m.role, m.kind, m.content, m.created_at
  FROM {OF_TURN} CROSS JOIN LATERAL json_populate_recordset(NULL::messages, a.messages) m
 ORDER BY ordinal
"""

PAGE = 500
"""Turns per statement of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFilter:
    """Which turns to list. A field that is left out matches all."""

    tenant_id: str | None = None
    session_id: str | None = None
    status: TurnStatus | None = None
    queue: str | None = None
    halting: bool = False
    """Only those that halt their session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessage:
    """One message of a turn."""

    ordinal: int
    role: str
    kind: str
    content: Any
    created_at: datetime


def list_turns_of_all(database: Database, wanted: OperatorFilter, limit: int) -> AsyncIterator[TurnRecord]:
    """The first `limit` matching turns, newest first, without their replies. Raises ListTooBroadError."""
    terms = having(tenant_id=wanted.tenant_id, session_id=wanted.session_id, queue=wanted.queue)
    if wanted.halting:
        terms.append(turns.c.id.in_(select(sessions.c.halted_by).where(sessions.c.halted_by.is_not(None))))

    async def read(room: int, last: UUID | None) -> list[TurnRecord]:
        beyond = () if last is None else (turns.c.id < last,)
        return await query_list(database, (*terms, *beyond), wanted.status, (turns.c.id.desc(),), room)

    return in_pages(read, limit)


async def in_pages(
    read: Callable[[int, UUID | None], Awaitable[list[TurnRecord]]], limit: int | None
) -> AsyncIterator[TurnRecord]:
    """The first `limit` turns of a list (None: all). `read` returns at most so many turns after the one with this id."""
    room, last = limit, None
    while room is None or room > 0:
        many = PAGE if room is None else min(PAGE, room)
        page = await read(many, last)
        for turn in page:
            yield turn
        if len(page) < many:
            return
        room, last = None if room is None else room - many, page[-1].id


async def find_tenants(database: Database, turn_id: UUID) -> list[str]:
    """The tenants with a turn of this id: first that of the table, then those of the archive, the last ended turn first."""
    rows = await database.fetch(FIND_TENANTS, {"id": turn_id})
    return list(dict.fromkeys(row["tenant_id"] for row in rows))


async def read_turn_of_any(database: Database, turn_id: UUID) -> TurnRecord | None:
    """One turn of any tenant with its reply. If several tenants have the id: that of the first in `find_tenants`."""
    tenants = await find_tenants(database, turn_id)
    return await read_turn(database, tenants[0], turn_id) if tenants else None


async def read_messages(database: Database, tenant_id: str, turn_id: UUID) -> list[TurnMessage]:
    """All messages of a turn, partial replies included."""
    return [TurnMessage(**row) for row in await database.fetch(MESSAGES, {"tenant": tenant_id, "id": turn_id})]
