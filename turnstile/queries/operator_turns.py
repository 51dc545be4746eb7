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

# Only the index `turns_tenant_created` has the order of the submits, tenant by tenant. It gives the tenants as well, a step each.
_NEWEST_OF_ALL: LiteralString = """
WITH RECURSIVE tenants (name) AS (
    (SELECT t.tenant_id FROM turns t ORDER BY t.tenant_id LIMIT 1)
     UNION ALL
    SELECT following.tenant_id
      FROM tenants CROSS JOIN LATERAL (
          SELECT t.tenant_id FROM turns t WHERE t.tenant_id > tenants.name ORDER BY t.tenant_id LIMIT 1) following
)
SELECT newest.id FROM tenants CROSS JOIN LATERAL (
    SELECT t.id, t.created_at FROM turns t
     WHERE t.tenant_id = tenants.name AND {terms}
     ORDER BY t.created_at DESC, t.id DESC LIMIT %(limit)s) newest
 ORDER BY newest.created_at DESC, newest.id DESC LIMIT %(limit)s"""

_INDEXED = (TurnStatus.PENDING, TurnStatus.RUNNING, TurnStatus.FAILED)
"""Statuses with an index of their own: what is read is bounded by the number of such turns."""

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
    """Only those that were submitted within this time."""
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
    """The `limit` matching turns that were submitted last, newest first, without their replies. Raises ListTooBroadError.

    Of one moment, such as a batch, the places in the sessions order them. Ids say nothing of time: clients may choose theirs.
    """
    terms = equal(tenant_id=wanted.tenant_id, session_id=wanted.session_id, queue=wanted.queue)
    if wanted.halting:
        terms.append(HALTING)
    if wanted.since_seconds is not None:
        terms.append("t.created_at >= now() - make_interval(secs => %(since_seconds)s)")
    if wanted.until_seconds is not None:
        terms.append("t.created_at < now() - make_interval(secs => %(until_seconds)s)")
    few = wanted.tenant_id is not None or wanted.halting or wanted.status in _INDEXED

    async def read(room: int, last: TurnRecord | None) -> list[TurnRecord]:
        values: dict[str, Any] = {**asdict(wanted), "limit": room}
        beyond: list[LiteralString] = []
        if last is not None:
            beyond = ["(t.created_at, t.id) < (%(last_at)s, %(last_id)s)"]
            values |= {"last_at": last.created_at, "last_id": last.id}
        if few:
            return await query_list(database, [*terms, *beyond], values, wanted.status, NEWEST_FIRST)
        of_tenant = " AND ".join(("true", *terms, *beyond, *equal(status=wanted.status)))
        return await query_list(
            database, [f"t.id IN ({_NEWEST_OF_ALL.format(terms=of_tenant)})"], values, None, NEWEST_FIRST
        )

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
