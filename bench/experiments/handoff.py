"""Hand-off: a session has several turns in line. How long from the end of one handler to the start of the next?

The way holds the settle, with its wait for other settles of the same worker, and the claim of the next turn. A handler's end is
its start plus the sleep that it was asked for, so a late timer counts as well.
"""

from collections.abc import Iterator
from functools import partial

from bench.contenders import OURS
from bench.experiment import TIMES, Column, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.running import Running, attempt_times
from bench.running import run as start
from bench.stage import Stage
from bench.workloads import fill_turns

TURNS = 1000
SESSIONS = 100
TURNS_A_SESSION = 10
SLEEP_SECONDS = 0.5
WAIT_SECONDS = 120.0
ONE, MANY = "one session", "100 sessions, 500 ms"


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    yield attempt_times(OURS, partial(_measure, stage, 1, scale.turns(TURNS), 64, 0.0), ONE)
    sessions = 5 if scale.quick else SESSIONS
    yield attempt_times(OURS, partial(_measure, stage, sessions, TURNS_A_SESSION, SESSIONS, SLEEP_SECONDS), MANY)


def _measure(stage: Stage, sessions: int, each: int, slots: int, sleep_seconds: float) -> list[float]:
    count = sessions * each
    with stage.room("handoff") as room:
        stage.sqs.send_all(room.queue_url, fill_turns(room, count, lambda number: f"session-{number % sessions}"))
        with start(stage, room, OURS, slots=slots, sleep_seconds=sleep_seconds) as running:
            running.require_handled(count, WAIT_SECONDS)
            return _milliseconds(running, sessions, sleep_seconds)


def _milliseconds(running: Running, sessions: int, sleep_seconds: float) -> list[float]:
    starts = {start.number: start.at for start in running.starts()}
    before = ((at, starts.get(number - sessions)) for number, at in starts.items())
    return [1000 * (at - begun - sleep_seconds) for at, begun in before if begun is not None]


def judge(samples: Samples) -> list[TargetResult]:
    # 100 sessions begin and end together, and their settles share one core: that case is shown without a target.
    return [
        at_most(f"hand-off p50, {ONE}", samples.median("p50", OURS.name, ONE), 3, "ms"),
        at_most(f"hand-off p99, {ONE}", samples.median("p99", OURS.name, ONE), 10, "ms"),
    ]


EXPERIMENT = Experiment(
    name="handoff",
    measures="milliseconds from the end of one turn's handler to the start of the session's next",
    columns=(*TIMES, Column("turns", "hand-offs")),
    run=run,
    judge=judge,
)
