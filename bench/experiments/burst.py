"""Burst: many turns at once upon a database whose statistics are of another time. Is the drain as fast as with fresh ones?

Autovacuum looks at a table once a minute. Until then a burst is planned and drained by what Postgres saw before it. Autovacuum
stays away here, in every case: otherwise a slow machine would have fresh statistics before it has all the turns.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import LiteralString

import psycopg
from psycopg.sql import SQL, Identifier

from bench.contenders import OURS
from bench.drains import Work, drain
from bench.emulated_sqs import Entry
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_least
from bench.running import attempt
from bench.stage import Room, Stage
from bench.workloads import record_turns

TURNS, FULL_TURNS = 20_000, 200_000
EARLIER = 5_000
"""Turns of a burst before the calm: what they leave of the partial indexes is pages without entries."""
TABLES = ("turns", "sessions", "messages", "turn_attempts")
MOST_SECONDS = 120.0
LEAST = 0.9
FRESH = "fresh statistics"

Connection = psycopg.Connection[tuple[object, ...]]

ALL_ANSWERED: LiteralString = "UPDATE turns SET status = 'SUCCEEDED', finished_at = now(), send_at = NULL"


@dataclass(frozen=True, slots=True)
class Case:
    """`calm` happens when the earlier burst has been answered and vacuumed, `crowded` when the burst has come."""

    name: str
    calm: Callable[[Connection], None] = lambda connection: None
    crowded: Callable[[Connection], None] = lambda connection: None


def _analyze(connection: Connection) -> None:
    connection.execute("ANALYZE")


def _truncate(connection: Connection) -> None:
    connection.execute(SQL("TRUNCATE {}").format(SQL(", ").join(map(Identifier, TABLES))))


def _restore(connection: Connection) -> None:
    # The embedded stack has no pg_dump. A dump that is read back leaves the same: new tables and indexes, no statistics.
    connection.execute("VACUUM FULL")
    connection.execute("DELETE FROM pg_statistic WHERE starelid >= 16384")


CASES = (
    Case(FRESH, crowded=_analyze),
    Case("after a calm"),
    Case("after TRUNCATE", calm=_truncate),
    Case("after a restore", calm=_restore),
)


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    for count in (scale.turns(TURNS), *([FULL_TURNS] if scale.full else [])):
        work = Work(count=count, most_seconds=MOST_SECONDS)
        for case in CASES:
            fill = partial(_fill, case)
            yield attempt(OURS, partial(drain, stage, OURS, work, fill), f"{count:,} turns, {case.name}")


def _fill(case: Case, room: Room, count: int) -> list[Entry]:
    record_turns(room, EARLIER, lambda number: f"earlier-{number}")
    with psycopg.connect(room.database_url, autocommit=True) as connection:
        # No claim brought them to where they are.
        connection.execute("SET session_replication_role = replica")
        connection.execute(ALL_ANSWERED)
        connection.execute("VACUUM ANALYZE")
        case.calm(connection)
        for table in TABLES:
            connection.execute(SQL("ALTER TABLE {} SET (autovacuum_enabled = false)").format(Identifier(table)))
        entries = record_turns(room, count, lambda number: f"session-{number}")
        case.crowded(connection)
    return entries


def judge(samples: Samples) -> list[TargetResult]:
    found = []
    for name, _ in samples.rows():
        many, _, case = name.partition(" turns, ")
        if case and case != FRESH:
            fresh = samples.ratio("turns_per_second", (OURS.name, name), (OURS.name, f"{many} turns, {FRESH}"))
            found.append(at_least(f"drain of a burst of {name}, of {FRESH}", fresh, LEAST))
    return found


EXPERIMENT = Experiment(
    name="burst",
    measures="turns a second from a full queue, by what Postgres knew of its tables when the turns came; 64 in flight",
    columns=(
        Column("turns_per_second", "turns/s"),
        Column("worker_cpu_ms", "CPU ms/turn", 3),
        Column("postgres_cpu_ms", "Postgres ms/turn", 3),
        Column("whole", "to the end"),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
