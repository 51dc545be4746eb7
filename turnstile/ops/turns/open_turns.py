"""Open turns by filter, for a cancel of many.

The partial indexes `turns_open`, `turns_scheduled` and `turns_running` have the open turns and no others: what is read is bounded
by their number, and at most `MOST` are returned.
"""

from dataclasses import asdict, dataclass
from functools import cache
from typing import LiteralString
from uuid import UUID

from sqlalchemy import ColumnElement, FromClause, bindparam, select, tuple_, union_all

from turnstile.backends.postgres.core_text import LIMIT, TURN_TRACES, TURNS, ago, constant, given, text_of
from turnstile.backends.postgres.database import Database
from turnstile.queries.turn_lists import PENDING, RUNNING, TURN, Condition, equal
from turnstile.turn.status import TurnStatus

MOST = 100_000
"""Turns of one list: some tens of megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFilter:
    """Which open turns to list. A field that is left out matches all."""

    queue: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    trace_id: str | None = None
    """Only turns of this trace, which may be an earlier one of the turn."""
    status: TurnStatus | None = None
    """PENDING or RUNNING; None: both."""
    older_than_seconds: float | None = None
    """Only those that were submitted longer ago than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    status: TurnStatus


async def list_open(database: Database, wanted: OpenFilter, limit: int = MOST) -> list[OpenTurn]:
    """The first `limit` matching open turns, scheduled ones included, oldest first. Without compensations: nobody submitted
    them, and they undo what a turn did."""
    statement = _list(given(asdict(wanted)) - {"status"}, wanted.status)
    rows = await database.fetch(statement, {**asdict(wanted), "limit": limit})
    return [OpenTurn(**{**row, "status": TurnStatus(row["status"])}) for row in rows]


@cache
def _list(filters: frozenset[str], status: TurnStatus | None) -> LiteralString:
    conditions = [*equal(filters), TURN.c.kind == constant("turn")]
    if "trace_id" in filters:
        conditions.append(of_trace(TURN))
    if "older_than_seconds" in filters:
        conditions.append(TURN.c.created_at < ago("older_than_seconds"))
    # One branch for each partial index, with its predicate.
    placed = [TURN.c.seq.is_not(None), TURN.c.status.in_([PENDING, RUNNING])]
    branches: list[list[Condition]] = []
    if status is not TurnStatus.RUNNING:
        branches.append([*placed, TURN.c.status == PENDING])
        branches.append([TURN.c.seq.is_(None), TURN.c.status == PENDING])
    if status is not TurnStatus.PENDING:
        branches.append([*placed, TURN.c.status == RUNNING])
    columns = [TURN.c[name] for name in OpenTurn.__dataclass_fields__]
    found = union_all(*(select(*columns).where(*branch, *conditions) for branch in branches)).subquery("t")
    return text_of(select(found).order_by(found.c.id).limit(LIMIT))


def of_trace(turn: FromClause) -> Condition:
    """Whether the turn is part of the trace `%(trace_id)s`, with one of its runs.

    A turn is identified by id, tenant and creation time: clients choose ids, and the id of an archived turn is free again.
    """
    last, earlier = TURNS.alias("o"), TURN_TRACES.alias("e")
    trace: ColumnElement[str] = bindparam("trace_id")
    runs = union_all(
        select(last.c.id, last.c.tenant_id, last.c.created_at).where(last.c.trace_id == trace),
        select(earlier.c.turn_id, earlier.c.tenant_id, earlier.c.turn_created_at).where(earlier.c.trace_id == trace),
    )
    return tuple_(turn.c.id, turn.c.tenant_id, turn.c.created_at).in_(runs)
