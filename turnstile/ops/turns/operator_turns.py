"""Reads for an operator, who has the database's credentials: turns of all tenants.

Separate from `queries.turns` on purpose: the API can't read another tenant's turns, not even by mistake.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.archive.reads import IN_EITHER
from turnstile.backends.postgres.database import Database
from turnstile.queries.turns import NEWEST_FIRST, TurnRecord, equal, query_list, read_turn
from turnstile.turn.status import TurnStatus

FIND_TENANTS: LiteralString = """
SELECT tenant_id, NULL AS ended_at FROM turns WHERE id = %(id)s
UNION ALL
SELECT tenant_id, ended_at FROM archived_turns WHERE id = %(id)s
 ORDER BY ended_at DESC NULLS FIRST
"""

MESSAGES: LiteralString = IN_EITHER.format(table="messages", archived="messages", order="ordinal")

HALTING: LiteralString = "t.id IN (SELECT s.halted_by FROM sessions s WHERE s.halted_by IS NOT NULL)"

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
    since_seconds: float | None = None
    """Only those that were submitted within this time. Goes with `tenant_id`, as `until_seconds` does."""
    until_seconds: float | None = None
    """Only those that were submitted longer ago than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessage:
    ordinal: int
    role: str
    kind: str
    content: Any
    created_at: datetime


async def list_turns_of_all(database: Database, wanted: OperatorFilter, limit: int) -> list[TurnRecord]:
    """`limit` matching turns, newest first, without their replies. Raises ListTooBroadError.

    Those of one tenant are chosen by the time of their submit. Those of all tenants are chosen by their ids, because no index has
    the times of all: ids that clients choose may be in any order. Times order what was chosen, and of one moment, such as a
    batch, the places in the sessions.
    """
    terms = equal(tenant_id=wanted.tenant_id, session_id=wanted.session_id, queue=wanted.queue)
    if wanted.halting:
        terms.append(HALTING)
    if wanted.since_seconds is not None:
        terms.append("t.created_at >= now() - make_interval(secs => %(since_seconds)s)")
    if wanted.until_seconds is not None:
        terms.append("t.created_at < now() - make_interval(secs => %(until_seconds)s)")
    order: LiteralString
    following: LiteralString
    if wanted.tenant_id is None:
        order, following = "t.id DESC", "t.id < %(last_id)s"
    else:
        order, following = NEWEST_FIRST, "(t.created_at, t.id) < (%(last_at)s, %(last_id)s)"

    async def read(room: int, last: TurnRecord | None) -> list[TurnRecord]:
        values: dict[str, Any] = {**asdict(wanted), "limit": room}
        if last is None:
            return await query_list(database, terms, values, wanted.status, order)
        values |= {"last_at": last.created_at, "last_id": last.id}
        return await query_list(database, [*terms, following], values, wanted.status, order)

    found = await in_pages(read, limit)
    return sorted(found, key=lambda turn: (turn.created_at, turn.seq or 0, turn.id), reverse=True)


async def in_pages(
    read: Callable[[int, TurnRecord | None], Awaitable[list[TurnRecord]]], limit: int | None
) -> list[TurnRecord]:
    """The first `limit` turns of a list (None: all). `read` returns at most so many turns after this one."""
    found: list[TurnRecord] = []
    while limit is None or len(found) < limit:
        many = PAGE if limit is None else min(PAGE, limit - len(found))
        page = await read(many, found[-1] if found else None)
        found += page
        if len(page) < many:
            break
    return found


async def find_tenants(database: Database, turn_id: UUID) -> list[str]:
    """The tenants with a turn of this id: first that of the table, then those of the archive, the last ended turn first."""
    rows = await database.fetch(FIND_TENANTS, {"id": turn_id})
    return list(dict.fromkeys(row["tenant_id"] for row in rows))


async def read_turn_of_any(database: Database, turn_id: UUID) -> TurnRecord | None:
    """One turn of any tenant with its reply. If several tenants have the id: that of the first in `find_tenants`."""
    tenants = await find_tenants(database, turn_id)
    return await read_turn(database, tenants[0], turn_id) if tenants else None


async def read_messages(database: Database, tenant_id: str, turn_id: UUID) -> list[TurnMessage]:
    rows = await database.fetch(MESSAGES, {"tenant": tenant_id, "id": turn_id})
    return [TurnMessage(**{name: row[name] for name in TurnMessage.__dataclass_fields__}) for row in rows]
