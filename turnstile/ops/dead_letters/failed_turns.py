"""Dead letters in the table: which turns are FAILED. Their rows last longer than the queue's fourteen days.

The index `turns_failed` has all FAILED rows and no others: what is read is bounded by their number, however many turns there are.
A session's turns and a trace's turns have indexes of their own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.ops.turns.attempts import RELEASE
from turnstile.ops.turns.operator_turns import HALTING, in_pages
from turnstile.ops.turns.trace_tree import OF_TRACE
from turnstile.queries.turns import TurnRecord, equal, record, select_turns
from turnstile.statements.start_children import HAS_SUCCESSOR

# The sample is the turn that failed last: its logs are the most likely to be there still.
_GROUPS: LiteralString = """
WITH failed AS MATERIALIZED (
    SELECT t.id, t.queue, coalesce(t.error_class, 'unknown') AS error_class, t.tenant_id, t.finished_at, {release} AS release
      FROM turns t WHERE {terms}
), releases AS (
    SELECT r.queue, r.error_class, json_object_agg(r.release, r.turns ORDER BY r.turns DESC, r.release) AS releases
      FROM (SELECT queue, error_class, release, count(*) AS turns FROM failed GROUP BY 1, 2, 3) r GROUP BY 1, 2
)
SELECT g.*, (SELECT n.error FROM turns n WHERE n.id = g.sample_turn_id) AS sample_error, r.releases
  FROM (SELECT f.queue, f.error_class, count(*) AS turns,
               count(DISTINCT f.tenant_id) AS tenants, min(f.finished_at) AS first_failed_at,
               max(f.finished_at) AS last_failed_at,
               (array_agg(f.id ORDER BY f.finished_at DESC, f.id DESC))[1] AS sample_turn_id
          FROM failed f GROUP BY 1, 2) g JOIN releases r USING (queue, error_class)
 ORDER BY g.turns DESC, g.queue, g.error_class
"""

# From the sessions that are halted, which are few, to each one's turn by its key: no other index of `turns` is bounded by their
# number. OFFSET 0 keeps the planner from any other order.
_COUNT_HALTING: LiteralString = """
SELECT count(*) AS turns
  FROM (SELECT s.halted_by FROM sessions s WHERE s.halted_by IS NOT NULL OFFSET 0) s
 CROSS JOIN LATERAL (SELECT t.* FROM turns t WHERE t.id = s.halted_by OFFSET 0) t
 WHERE {terms}
"""

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
    terms = _terms(wanted)

    async def read(room: int, last: TurnRecord | None) -> list[TurnRecord]:
        beyond: list[LiteralString] = [] if last is None else ["t.id > %(last)s"]
        values = {**_values(wanted), "last": last and last.id, "limit": room}
        rows = await database.fetch(select_turns([*terms, *beyond], "t.id"), values)
        return [record(row) for row in rows]

    return await in_pages(read, limit)


async def group_failed(database: Database, wanted: FailedFilter) -> list[FailedGroup]:
    """The turns of `list_failed`, counted by queue and error class, the largest group first."""
    rows = await database.fetch(
        _GROUPS.format(release=RELEASE.format(turn="t"), terms=" AND ".join(_terms(wanted))), _values(wanted)
    )
    return [FailedGroup(**row) for row in rows]


async def group_failures(database: Database) -> list[FailedGroup]:
    """All turns that are FAILED and not given up, those that halt their session included, the largest group first."""
    terms: LiteralString = "t.status = 'FAILED' AND t.dropped_at IS NULL"
    rows = await database.fetch(_GROUPS.format(release=RELEASE.format(turn="t"), terms=terms), {})
    return [FailedGroup(**row) for row in rows]


async def count_halting(database: Database, wanted: FailedFilter) -> int:
    """How many turns `list_failed` leaves out because they halt their session. `turn_ids` and `dropped` play no part: a turn
    that halts is not dropped."""
    (row,) = await database.fetch(_COUNT_HALTING.format(terms=" AND ".join(_of_filter(wanted))), _values(wanted))
    return int(row["turns"])


def _terms(wanted: FailedFilter) -> list[LiteralString]:
    terms = [*_of_filter(wanted), f"NOT {HALTING}"]
    if wanted.turn_ids:
        terms.append("t.id = ANY (%(turn_ids)s::uuid[])")
    elif wanted.dropped:
        terms.append("t.dropped_at IS NOT NULL")
    else:
        # A FAILED row with a `send_at` has a dead letter that is still to be sent.
        terms += ["t.dropped_at IS NULL", "(t.dead_lettered_at IS NOT NULL OR t.send_at IS NOT NULL)"]
    return terms


def _of_filter(wanted: FailedFilter) -> list[LiteralString]:
    terms = equal(
        queue=wanted.queue,
        error_class=wanted.error_class,
        tenant_id=wanted.tenant_id,
        session_id=wanted.session_id,
    )
    terms += ["t.status = 'FAILED'", f"NOT {HAS_SUCCESSOR}"]
    if wanted.older_than_seconds is not None:
        terms.append("t.finished_at < now() - make_interval(secs => %(older_than_seconds)s)")
    if wanted.younger_than_seconds is not None:
        terms.append("t.finished_at > now() - make_interval(secs => %(younger_than_seconds)s)")
    if wanted.trace_id is not None:
        terms.append(OF_TRACE)
    return terms


def _values(wanted: FailedFilter) -> Mapping[str, Any]:
    return {**asdict(wanted), "turn_ids": list(wanted.turn_ids)}
