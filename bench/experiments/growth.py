"""Growth: does a turn cost more when there is much: a backlog, a past, a long session, hours of churn?

Every case drains as many turns as the case that it is compared with; the long session against a short one, because one
session's turns go one by one.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench.contenders import OURS
from bench.drains import figures
from bench.emulated_sqs import Entry
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.prefill import end_turns, weigh
from bench.running import attempt
from bench.running import run as start
from bench.scans import SCANS, time_scans
from bench.stage import Room, Stage
from bench.workloads import fill_turns

MEASURED = 3000
SKIPPED = 500
IN_ONE_SESSION = 800
BACKLOG, PAST, LONG = 100_000, 500_000, 9_000
FULL_PAST = 5_000_000
CHURN = 30_000
FULL_CHURN, FULL_CHURN_SECONDS = 2_000_000, 3600.0
"""In a full run it is an hour, or as many turns as two cores do in less."""
WAIT_SECONDS = 7200.0
MOST = 1.25
EMPTY, SHORT = "empty", "session of few turns"


@dataclass(frozen=True, slots=True)
class Case:
    """What is there before, and how many turns pass unmeasured: at most as many as pass in `seconds`."""

    name: str
    prepare: Callable[[Room], list[Entry]]
    skipped: int
    measured: int
    seconds: float = math.inf


def cases(scale: Scale) -> list[Case]:
    turns, skipped, one = scale.turns(MEASURED), scale.turns(SKIPPED), scale.turns(IN_ONE_SESSION)
    backlog, long = scale.turns(BACKLOG), scale.turns(LONG)
    past = FULL_PAST if scale.full else scale.turns(PAST)
    churn = FULL_CHURN if scale.full else scale.turns(CHURN)
    churn_seconds = FULL_CHURN_SECONDS if scale.full else math.inf
    churned = "after an hour of churn" if scale.full else f"after {churn:,} turns"
    in_one = partial(_in_one_session, one + skipped)
    return [
        Case(EMPTY, lambda room: fill_turns(room, turns + skipped), skipped, turns),
        Case(f"backlog of {backlog:,}", lambda room: fill_turns(room, backlog), skipped, turns),
        Case(f"{past:,} ended turns", partial(_after, past, 10, turns + skipped), skipped, turns),
        Case(churned, lambda room: fill_turns(room, churn + turns), churn, turns, churn_seconds),
        Case(SHORT, in_one, skipped, one),
        Case(f"session of {long:,} turns", partial(_in_long_session, long, one + skipped), skipped, one),
    ]


def _after(past: int, each: int, count: int, room: Room) -> list[Entry]:
    end_turns(room, past, each)
    return fill_turns(room, count)


def _in_one_session(count: int, room: Room) -> list[Entry]:
    return fill_turns(room, count, lambda number: "long-0")


def _in_long_session(past: int, count: int, room: Room) -> list[Entry]:
    end_turns(room, past, past, "long-")
    return _in_one_session(count, room)


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    for case in cases(scale):
        yield attempt(OURS, partial(_measure, stage, case), case.name)


def enough(case: Case, passed: int, filled: int) -> int:
    """How many turns have begun when all that are to be measured have, of `filled` in the queue."""
    # Those that pass are seen to have passed a little late, and there may be none to spare for that.
    return min(passed + case.measured, filled)


def _measure(stage: Stage, case: Case) -> dict[str, float]:
    with stage.room("growth") as room:
        entries = case.prepare(room)
        stage.sqs.send_all(room.queue_url, entries)
        with start(stage, room, OURS, slots=64) as running:
            until = time.monotonic() + case.seconds
            running.require(
                "at work", lambda: running.handled() >= case.skipped or time.monotonic() > until, WAIT_SECONDS
            )
            passed = running.handled()
            before, lighter = running.look(), weigh(room)
            goal = enough(case, passed, len(entries))
            running.require_handled(goal, WAIT_SECONDS)
            after, heavier = running.look(), weigh(room)
            scans = time_scans(room)
    found = figures(before, after)
    return found | {
        "both_cpu_ms": found["worker_cpu_ms"] + found["postgres_cpu_ms"],
        "passed": float(passed),
        "wal_bytes": (heavier.wal - lighter.wal) / found["turns"],
        "turns_mb": heavier.turns / 1e6,
        "indexes_mb": heavier.indexes / 1e6,
        "dead": float(heavier.dead),
        **scans,
    }


def judge(samples: Samples) -> list[TargetResult]:
    names = [case for case, _ in samples.rows()]
    pairs = [(name, SHORT if name.startswith("session") else EMPTY) for name in names if name not in (EMPTY, SHORT)]
    return [
        at_most(
            f"CPU a turn (worker and Postgres), {name}, of {against}",
            samples.ratio("both_cpu_ms", (OURS.name, name), (OURS.name, against)),
            MOST,
        )
        for name, against in pairs
    ]


EXPERIMENT = Experiment(
    name="growth",
    measures="what a turn costs when there is much already; milliseconds of the relay's scans then",
    columns=(
        Column("passed", "turns before"),
        Column("turns_per_second", "turns/s"),
        Column("worker_cpu_ms", "CPU ms/turn", 3),
        Column("postgres_cpu_ms", "Postgres ms/turn", 3),
        Column("wal_bytes", "WAL bytes/turn"),
        Column("turns_mb", "table MB"),
        Column("indexes_mb", "indexes MB"),
        Column("dead", "dead rows"),
        *(Column(name, f"{name} ms", 2) for name in SCANS),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
