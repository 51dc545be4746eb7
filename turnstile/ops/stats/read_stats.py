"""The figures of `turnstile stats`: the turns that have ended lately, how they ended, and how long they waited and ran.

A turn waits from `queued_at` to `first_started_at`, and runs from `first_started_at` to `finished_at`: the definitions of
`docs/glossary.md`. A turn that is put back to work has not ended, and a turn that the archive has taken is not in the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow
from sqlalchemy import CTE, ColumnElement, Double, any_, case, cast, extract, func, literal_column, select, text

from turnstile.backends.postgres.core_text import FENCE, TURNS, ago, given, text_of
from turnstile.backends.postgres.database import STATEMENT_TIMEOUT_SECONDS, Database
from turnstile.errors import TurnstileError
from turnstile.ops.turns.attempts import RELEASE
from turnstile.queries.ended_turns import ENDED_QUEUES
from turnstile.queries.turn_lists import equal

SHARES = (0.5, 0.95, 0.99)
"""The percentiles of each duration."""

MOST_CLASSES = 50
"""How many error classes are listed at most, the most frequent first. A class is a name of the user's code."""


# The index `turns_finished_at` serves it, with any filter: OFFSET 0 keeps the filters out of the scan, except that of the queue,
# which is the index's first column. An index that finds a tenant's turns would read all of them, however long ago they ended. It
# reads and sorts each turn that has ended: a million takes one or two seconds. Ten million take longer than a statement may, and
# StatsTooBroadError says what to do.
def _ended(filters: frozenset[str], by: "GroupBy | None") -> CTE:
    """The turns that have ended since then, as `ended`."""
    # What ended after now did so before the clock was set back.
    lately = (TURNS.c.finished_at > ago("since"), TURNS.c.finished_at <= func.now())
    of_queue = equal(filters, of=TURNS, names=("queue",)) or [TURNS.c.queue == any_(literal_column(ENDED_QUEUES))]
    e = select(TURNS).where(*of_queue, *lately).offset(FENCE).subquery("e")
    columns: list[ColumnElement[Any]] = [
        e.c.status,
        e.c.error_class,
        case((e.c.first_started_at.is_not(None), e.c.attempt)).label("attempts"),
        cast(extract("epoch", e.c.first_started_at - e.c.queued_at), Double).label("waiting"),
        cast(extract("epoch", e.c.finished_at - e.c.first_started_at), Double).label("running"),
    ]
    if by is GroupBy.TENANT:
        columns.append(e.c.tenant_id.label("name"))
    elif by is GroupBy.RELEASE:
        columns.append(literal_column(RELEASE.format(turn="e")).label("name"))
    return select(*columns).where(*equal(filters, of=e)).cte("ended").prefix_with("MATERIALIZED")


_TOTALS = text(f"""
SELECT now() AS read_at, count(*) AS ended, avg(e.attempts)::float8 AS attempts,
       percentile_cont(CAST(:shares AS float8[])) WITHIN GROUP (ORDER BY e.waiting) AS waiting,
       percentile_cont(CAST(:shares AS float8[])) WITHIN GROUP (ORDER BY e.running) AS running,
       (SELECT coalesce(json_object_agg(s.status, s.turns), '{{}}')
          FROM (SELECT o.status, count(*) AS turns FROM ended o GROUP BY o.status ORDER BY turns DESC) s) AS by_status,
       (SELECT coalesce(json_object_agg(c.error_class, c.turns), '{{}}')
          FROM (SELECT coalesce(o.error_class, 'unknown') AS error_class, count(*) AS turns FROM ended o
                 WHERE o.status = 'FAILED' GROUP BY 1 ORDER BY turns DESC, 1 LIMIT {MOST_CLASSES}) c) AS by_error_class
  FROM ended e
""")

_GROUPS = text("""
SELECT e.name, count(*) AS ended, count(*) FILTER (WHERE e.status = 'FAILED') AS failed,
       mode() WITHIN GROUP (ORDER BY e.error_class) FILTER (WHERE e.status = 'FAILED') AS top_error_class,
       percentile_cont(CAST(:shares AS float8[])) WITHIN GROUP (ORDER BY e.waiting) AS waiting_seconds,
       percentile_cont(CAST(:shares AS float8[])) WITHIN GROUP (ORDER BY e.running) AS running_seconds
  FROM ended e GROUP BY e.name ORDER BY ended DESC, e.name
""")


class StatsTooBroadError(TurnstileError):
    """More turns have ended in that time than the statement can read within its time limit. The server is healthy."""

    def __init__(self) -> None:
        super().__init__(
            f"more turns have ended in that time than can be read within {STATEMENT_TIMEOUT_SECONDS} s: give a shorter --since"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Percentiles of a duration, in seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The turns that ended within `since_seconds` before `read_at`, in their present generation."""

    since_seconds: float
    read_at: datetime
    ended: int
    ended_per_second: float
    by_status: dict[str, int]
    by_error_class: dict[str, int]
    """The FAILED turns, the most frequent class first; at most MOST_CLASSES classes."""
    waiting_seconds: Percentiles | None
    """How long turns waited, of those that were started; None if there are none."""
    running_seconds: Percentiles | None
    """How long those turns ran. Retries, snoozes and their pauses are included."""
    attempts_per_turn: float | None
    """The mean over the turns that were started. Snoozes, joins and hand-backs do not count as attempts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsGroup:
    """The turns of `Stats` of one tenant, or of one release of the handler."""

    name: str
    """The tenant; or the release of the last attempt, empty if its worker named none."""
    ended: int
    failed: int
    top_error_class: str | None = None
    """The most frequent class of the FAILED turns."""
    waiting_seconds: Percentiles | None = None
    running_seconds: Percentiles | None = None


class GroupBy(StrEnum):
    """What `group_stats` counts by."""

    TENANT = "tenant"
    RELEASE = "release"


@cache
def make_statement(filters: frozenset[str], by: GroupBy | None = None) -> LiteralString:
    """The totals, or the figures of each group."""
    figures = _TOTALS if by is None else _GROUPS
    return text_of(figures.columns().add_cte(_ended(filters, by)))


async def read_stats(
    database: Database, *, since_seconds: float, queue: str | None = None, tenant_id: str | None = None
) -> Stats:
    """The figures of one queue or of all, and of one tenant or of all.

    Raises StatsTooBroadError or DatabaseUnavailableError.
    """
    rows = await _read(database, None, since_seconds, {"queue": queue, "tenant_id": tenant_id})
    return _stats(rows[0], since_seconds)


async def group_stats(
    database: Database, by: GroupBy, *, since_seconds: float, queue: str | None = None, tenant_id: str | None = None
) -> list[StatsGroup]:
    """The groups of the ended turns, the largest first.

    Raises StatsTooBroadError or DatabaseUnavailableError.
    """
    rows = await _read(database, by, since_seconds, {"queue": queue, "tenant_id": tenant_id})
    return [
        StatsGroup(
            **{
                **row,
                "waiting_seconds": _percentiles(row["waiting_seconds"]),
                "running_seconds": _percentiles(row["running_seconds"]),
            }
        )
        for row in rows
    ]


async def _read(
    database: Database, by: GroupBy | None, since_seconds: float, filters: Mapping[str, str | None]
) -> list[DictRow]:
    parameters = {**filters, "since": since_seconds, "shares": list(SHARES)}
    async with database.connection() as connection:
        try:
            async with connection.transaction():
                await connection.execute("SET TRANSACTION READ ONLY")
                return await (await connection.execute(make_statement(given(filters), by), parameters)).fetchall()
        except psycopg.errors.QueryCanceled as error:
            raise StatsTooBroadError from error


def _stats(row: dict[str, Any], since_seconds: float) -> Stats:
    return Stats(
        since_seconds=since_seconds,
        read_at=row["read_at"],
        ended=row["ended"],
        ended_per_second=row["ended"] / since_seconds,
        by_status=row["by_status"],
        by_error_class=row["by_error_class"],
        waiting_seconds=_percentiles(row["waiting"]),
        running_seconds=_percentiles(row["running"]),
        attempts_per_turn=row["attempts"],
    )


def _percentiles(values: Sequence[float | None] | None) -> Percentiles | None:
    if values is None or values[0] is None:
        return None
    p50, p95, p99 = (float(value or 0.0) for value in values)
    return Percentiles(p50=p50, p95=p95, p99=p99)
