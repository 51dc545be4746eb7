"""Lists of turns of all tenants, for an operator.

Not in `operator_turns`, because they import SQLAlchemy: commands about one turn start without it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, LiteralString

from sqlalchemy import bindparam, select, tuple_

from turnstile.backends.postgres.core_text import ago, given, text_of
from turnstile.backends.postgres.database import Database
from turnstile.queries.turn_lists import SESSION, TURN, equal, newest_first, query_list, select_list
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

HALTING = TURN.c.id.in_(select(SESSION.c.halted_by).where(SESSION.c.halted_by.is_not(None)))

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


async def list_turns_of_all(database: Database, wanted: OperatorFilter, limit: int) -> list[TurnRecord]:
    """`limit` matching turns, newest first, without their replies. Raises ListTooBroadError.

    Those of one tenant are chosen by the time of their submit. Those of all tenants are chosen by their ids, because no index has
    the times of all: ids that clients choose may be in any order. Times order what was chosen, and of one moment, such as a
    batch, the places in the sessions.
    """
    filters = given(asdict(wanted))

    async def read(room: int, last: TurnRecord | None) -> list[TurnRecord]:
        values: dict[str, Any] = {**asdict(wanted), "limit": room}
        if last is not None:
            values |= {"last_at": last.created_at, "last_id": last.id}
        statement = _list(filters, wanted.status is TurnStatus.PENDING, last is not None)
        return await query_list(database, statement, values)

    found = await in_pages(read, limit)
    return sorted(found, key=lambda turn: (turn.created_at, turn.seq or 0, turn.id), reverse=True)


@cache
def _list(filters: frozenset[str], pending: bool, following: bool) -> LiteralString:
    conditions = equal(filters)
    if "halting" in filters:
        conditions.append(HALTING)
    if "since_seconds" in filters:
        conditions.append(TURN.c.created_at >= ago("since_seconds"))
    if "until_seconds" in filters:
        conditions.append(TURN.c.created_at < ago("until_seconds"))
    of_one_tenant = "tenant_id" in filters
    if following and of_one_tenant:
        conditions.append(tuple_(TURN.c.created_at, TURN.c.id) < tuple_(bindparam("last_at"), bindparam("last_id")))
    elif following:
        conditions.append(TURN.c.id < bindparam("last_id"))
    order = newest_first(TURN) if of_one_tenant else [TURN.c.id.desc()]
    return text_of(select_list(conditions, order, filters, pending=pending))


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
