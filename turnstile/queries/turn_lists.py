"""Lists of turns, for the API and for operators. They read only the table, not the archive, and leave the replies out.

The conditions of a list depend on the caller's filters. Each combination of filters is compiled once. Like reads by id, lists
go to the writer.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow
from sqlalchemy import ColumnElement, FromClause, Select, bindparam, literal_column, select, tuple_, union_all

from turnstile.backends.postgres.core_text import LIMIT, SESSIONS, TURNS, constant, given, text_of
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.errors import DatabaseUnavailableError, ListTooBroadError
from turnstile.queries.opened_record import open_record
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

_OUT_OF_TIME = "57014"

REACH = 10_000
"""Turns that one page of a list reads at most: even from disk, this takes a fraction of the statement's time limit."""
_UNINDEXED = (TurnStatus.SUCCEEDED, TurnStatus.CANCELED)

Condition = ColumnElement[bool]
Order = Sequence[ColumnElement[Any]]
Position = tuple[datetime, UUID]
"""A place in a list: creation time and id of the last turn of a page. Not the id alone: clients may choose theirs."""

TURN = TURNS.alias("t")
SESSION = SESSIONS.alias("s")
PENDING, RUNNING, FAILED = (constant(status) for status in ("PENDING", "RUNNING", "FAILED"))

_HALTED_BY = select(SESSION.c.halted_by).where(
    SESSION.c.tenant_id == TURN.c.tenant_id, SESSION.c.session_id == TURN.c.session_id
)
_COLUMNS = [TURN.c[name] for name in TurnRecord.__dataclass_fields__ if name in TURN.c]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns to list. A field that is left out matches all."""

    tenant_id: str
    session_id: str | None = None
    status: TurnStatus | None = None
    queue: str | None = None


async def list_page(
    database: Database, wanted: TurnFilter, *, limit: int, before: Position | None = None
) -> tuple[list[TurnRecord], Position | None]:
    """The first `limit` matching turns after `before`, newest first, without their replies; and the `before` of the next page.
    None if there is no next page. Raises ListTooBroadError.

    There is no index for ended turns or for a queue, because it would slow down the hot path. Such a page reads REACH turns at
    most: it may have fewer than `limit` turns, or none, and still have a next page.
    """
    filters = given(asdict(wanted))
    values: dict[str, Any] = {**asdict(wanted), "limit": limit + 1, "reach": REACH, "skipped": REACH - 1}
    if before is not None:
        filters |= {"before"}
        values["before_at"], values["before_id"] = before
    if wanted.session_id is not None or not (wanted.status in _UNINDEXED or (wanted.queue and wanted.status is None)):
        found = await query_list(database, _page(filters, wanted.status is TurnStatus.PENDING), values)
        return found[:limit], _position(found[limit - 1]) if len(found) > limit else None
    found = await query_list(database, _page_in_reach(filters), values)
    if len(found) > limit:
        return found[:limit], _position(found[limit - 1])
    ends = await query_rows(database, end_of_reach(filters), values)
    if not ends:
        return found, None
    # Turns submitted since have moved this end towards newer turns: what is older comes with the next page.
    end = (ends[0]["created_at"], ends[0]["id"])
    return [one for one in found if _position(one) >= end], end


@cache
def _page(filters: frozenset[str], pending: bool) -> LiteralString:
    return text_of(select_list([*_after(filters), *equal(filters)], newest_first(TURN), filters, pending=pending))


@cache
def _page_in_reach(filters: frozenset[str]) -> LiteralString:
    reached = _newest(filters).limit(bindparam("reach")).subquery("t")
    found = select(reached.c.id).where(*equal(filters, of=reached, names=("status", "queue")))
    found = found.order_by(*newest_first(reached)).limit(LIMIT)
    return text_of(select_turns([TURN.c.id.in_(found)], newest_first(TURN)))


@cache
def end_of_reach(filters: frozenset[str]) -> LiteralString:
    """The last of the `skipped` + 1 turns that a page reads: none if it reads the tenant's oldest turn."""
    return text_of(_newest(filters).offset(bindparam("skipped")).limit(literal_column("1")))


def _newest(filters: frozenset[str]) -> Select[Any]:
    columns = (TURN.c.id, TURN.c.created_at, TURN.c.status, TURN.c.queue)
    conditions = [*_after(filters), *equal(filters, names=("tenant_id",))]
    return select(*columns).where(*conditions).order_by(*newest_first(TURN))


def _after(filters: frozenset[str]) -> list[Condition]:
    place = tuple_(TURN.c.created_at, TURN.c.id)
    return [place < tuple_(bindparam("before_at"), bindparam("before_id"))] if "before" in filters else []


def newest_first(of: FromClause) -> Order:
    return (of.c.created_at.desc(), of.c.id.desc())


def equal(
    filters: frozenset[str],
    *,
    of: FromClause = TURN,
    names: Sequence[str] = ("tenant_id", "session_id", "queue", "error_class"),
) -> list[Condition]:
    """The conditions on those of the columns that are among the filters. The parameters have the names of the columns."""
    return [of.c[name] == bindparam(name) for name in names if name in filters]


def select_turns(conditions: Sequence[Condition], order: Order) -> Select[Any]:
    """A list of at most `%(limit)s` turns: rows for `TurnRecord.of`."""
    columns = (*_COLUMNS, _HALTED_BY.scalar_subquery().label("halted_by"))
    return select(*columns).where(*conditions).order_by(*order).limit(LIMIT)


def select_list(
    conditions: Sequence[Condition], order: Order, filters: frozenset[str], *, pending: bool
) -> Select[Any]:
    """The same of one status, if `filters` has the status. `pending`: it is PENDING."""
    if not pending:
        return select_turns([*conditions, *equal(filters, names=("status",))], order)
    # Two queries, because placed and scheduled turns have separate partial indexes, and usually few turns are PENDING.
    placed, scheduled = (
        select(TURN.c.id)
        .where(*conditions, TURN.c.status == PENDING, place)
        .order_by(*order)
        .limit(LIMIT)
        .correlate(None)
        for place in (TURN.c.seq.is_not(None), TURN.c.seq.is_(None))
    )
    return select_turns([TURN.c.id.in_(union_all(placed, scheduled))], order)


async def query_list(database: Database, statement: LiteralString, values: Parameters) -> list[TurnRecord]:
    """The first turns of a list, without their replies.

    Raises ListTooBroadError if a rare status or queue is searched among too many turns: there is no index for that, because it
    would slow down the hot path.
    """
    rows = await query_rows(database, statement, values)
    return [open_record(TurnRecord.of(row), database.contents) for row in rows]


async def query_rows(database: Database, statement: LiteralString, values: Parameters) -> list[DictRow]:
    """The rows of a list. Raises ListTooBroadError."""
    try:
        return await database.fetch(statement, values)
    except DatabaseUnavailableError as error:
        if getattr(error.__cause__, "sqlstate", None) == _OUT_OF_TIME:
            raise ListTooBroadError from error
        raise


def _position(turn: TurnRecord) -> Position:
    return turn.created_at, turn.id
