"""Dead letters in the table: which turns are FAILED. Their rows last longer than the queue's fourteen days.

The index `turns_failed` has all FAILED rows and no others: what is read is bounded by their number, however many turns there are.
A session's turns and a trace's turns have indexes of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Uuid,
    any_,
    bindparam,
    cast,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    true,
)

from turnstile.backends.postgres.core_text import FENCE, TURNS, ago, constant, given, text_of
from turnstile.backends.postgres.database import Database
from turnstile.ops.turns.attempts import RELEASE
from turnstile.ops.turns.open_turns import of_trace
from turnstile.ops.turns.operator_lists import HALTING, in_pages
from turnstile.queries.opened_record import open_record
from turnstile.queries.turn_lists import FAILED, SESSION, TURN, Condition, equal, select_turns
from turnstile.sealing.contents import Contents
from turnstile.sealing.place import ERROR, Place
from turnstile.statements.start_children import HAS_SUCCESSOR
from turnstile.turn.turn_record import TurnRecord

# Of the rows `failed`. The sample is the turn that failed last: its logs are the most likely to be there still.
_GROUPS = text("""
SELECT g.*, n.error AS sample_error, n.tenant_id AS sample_tenant_id, n.session_id AS sample_session_id, r.releases
  FROM (SELECT f.queue, f.error_class, count(*) AS turns,
               count(DISTINCT f.tenant_id) AS tenants, min(f.finished_at) AS first_failed_at,
               max(f.finished_at) AS last_failed_at,
               (array_agg(f.id ORDER BY f.finished_at DESC, f.id DESC))[1] AS sample_turn_id
          FROM failed f GROUP BY 1, 2) g
  LEFT JOIN LATERAL (SELECT n.* FROM turns n WHERE n.id = g.sample_turn_id LIMIT 1) n ON true
  JOIN (SELECT f.queue, f.error_class, json_object_agg(f.release, f.turns ORDER BY f.turns DESC, f.release) AS releases
          FROM (SELECT queue, error_class, release, count(*) AS turns FROM failed GROUP BY 1, 2, 3) f
         GROUP BY 1, 2) r ON r.queue = g.queue AND r.error_class = g.error_class
 ORDER BY g.turns DESC, g.queue, g.error_class
""")

BATCH = 50
"""Turns that one statement of a redrive or a drop changes. Few, because it locks their rows; a redrive also locks their
sessions."""

MOST_RECORDED_IDS = 100
"""Named turns in the filter of a record. Of more, only the number is recorded: the record has the turns themselves anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFilter:
    """Which FAILED turns to list. A field that is left out matches all."""

    queue: str | None = None
    turn_ids: tuple[UUID, ...] = ()
    error_class: str | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    older_than_seconds: float | None = None
    """Only those that failed longer ago than this."""
    younger_than_seconds: float | None = None
    trace_id: str | None = None
    """Only those of this trace, or with an earlier run in it, before a redrive."""
    dropped: bool = False
    """Those that an operator has given up, in place of the others."""

    def as_recorded(self) -> dict[str, Any]:
        """The fields that are set, as the record of a redrive or a drop has them."""
        named = len(self.turn_ids)
        ids = [str(turn_id) for turn_id in self.turn_ids] if named <= MOST_RECORDED_IDS else []
        fields = asdict(self) | {"turn_ids": ids, "turns_named": 0 if ids else named}
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedGroup:
    """The FAILED turns of one queue and error class."""

    queue: str
    error_class: str
    turns: int
    tenants: int
    first_failed_at: datetime
    last_failed_at: datetime
    sample_turn_id: UUID
    """The turn that failed last."""
    sample_error: str | None
    releases: dict[str, int]
    """How many of the turns last failed under each release of the handler, the most first. "": it named none."""


async def list_failed(database: Database, wanted: FailedFilter, limit: int | None = None) -> list[TurnRecord]:
    """The first `limit` matching FAILED turns, oldest first, without their replies; None: all.

    Left out are turns that halt their session, because they are not given up yet, and children that their parent has started
    again. Turns without a dead letter, and those that an operator has given up, are left out unless `turn_ids` names them.
    """
    filters = given(asdict(wanted))

    async def read(room: int, last: TurnRecord | None) -> list[TurnRecord]:
        values = {**_values(wanted), "last": last and last.id, "limit": room}
        rows = await database.fetch(_list(filters, last is not None), values)
        return [open_record(TurnRecord.of(row), database.contents) for row in rows]

    return await in_pages(read, limit)


async def group_failed(database: Database, wanted: FailedFilter) -> list[FailedGroup]:
    """The turns of `list_failed`, counted by queue and error class, the largest group first."""
    return _opened(await database.fetch(_groups(given(asdict(wanted))), _values(wanted)), database.contents)


async def group_failures(database: Database) -> list[FailedGroup]:
    """All turns that are FAILED and not given up, those that halt their session included, the largest group first."""
    return _opened(await database.fetch(_groups(None), {}), database.contents)


def _opened(rows: Sequence[DictRow], contents: Contents) -> list[FailedGroup]:
    groups = []
    for row in rows:
        place = Place(row.pop("sample_tenant_id"), row.pop("sample_session_id"), row["sample_turn_id"], ERROR)
        groups.append(FailedGroup(**{**row, "sample_error": contents.show(row["sample_error"], place)}))
    return groups


async def count_halting(database: Database, wanted: FailedFilter) -> int:
    """How many turns `list_failed` leaves out because they halt their session. `turn_ids` and `dropped` play no part: a turn
    that halts is not dropped."""
    (row,) = await database.fetch(_count_halting(given(asdict(wanted)) - {"turn_ids", "dropped"}), _values(wanted))
    return int(row["turns"])


@cache
def _list(filters: frozenset[str], following: bool) -> LiteralString:
    beyond = [TURN.c.id > bindparam("last")] if following else []
    return text_of(select_turns([*_conditions(filters), *beyond], [TURN.c.id]))


@cache
def _groups(filters: frozenset[str] | None) -> LiteralString:
    """None: all that are not given up."""
    columns: tuple[ColumnElement[Any], ...] = (
        TURN.c.id,
        TURN.c.queue,
        func.coalesce(TURN.c.error_class, constant("unknown")).label("error_class"),
        TURN.c.tenant_id,
        TURN.c.finished_at,
        literal_column(RELEASE.format(turn="t")).label("release"),
    )
    all_failed = [TURN.c.status == FAILED, TURN.c.dropped_at.is_(None)]
    failed = select(*columns).where(*(all_failed if filters is None else _conditions(filters))).cte("failed")
    return text_of(_GROUPS.columns().add_cte(failed.prefix_with("MATERIALIZED")))


@cache
def _count_halting(filters: frozenset[str]) -> LiteralString:
    # From the sessions that are halted, which are few, to each one's turn by its key: no other index of `turns` is bounded by
    # their number.
    halted = select(SESSION.c.halted_by).where(SESSION.c.halted_by.is_not(None)).offset(FENCE).subquery("s")
    turn = select(TURNS).where(TURNS.c.id == halted.c.halted_by).offset(FENCE).lateral("t")
    found = select(func.count().label("turns")).select_from(halted).join(turn, true())
    return text_of(found.where(*_of_filter(filters, turn)))


def _conditions(filters: frozenset[str]) -> list[Condition]:
    conditions = [*_of_filter(filters, TURN), not_(HALTING)]
    if "turn_ids" in filters:
        return [*conditions, TURN.c.id == any_(cast(bindparam("turn_ids"), ARRAY(Uuid)))]
    if "dropped" in filters:
        return [*conditions, TURN.c.dropped_at.is_not(None)]
    # A FAILED row with a `send_at` has a dead letter that is still to be sent.
    has_letter = or_(TURN.c.dead_lettered_at.is_not(None), TURN.c.send_at.is_not(None))
    return [*conditions, TURN.c.dropped_at.is_(None), has_letter]


def _of_filter(filters: frozenset[str], turn: FromClause) -> list[Condition]:
    """`turn` is named `t`."""
    has_successor: Condition = literal_column(HAS_SUCCESSOR)
    conditions = [*equal(filters, of=turn), turn.c.status == FAILED, not_(has_successor)]
    if "older_than_seconds" in filters:
        conditions.append(turn.c.finished_at < ago("older_than_seconds"))
    if "younger_than_seconds" in filters:
        conditions.append(turn.c.finished_at > ago("younger_than_seconds"))
    if "trace_id" in filters:
        conditions.append(of_trace(turn))
    return conditions


def _values(wanted: FailedFilter) -> Mapping[str, Any]:
    return {**asdict(wanted), "turn_ids": list(wanted.turn_ids)}
