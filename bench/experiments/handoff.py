"""Hand-off: a session has several turns in line. How long from the end of one handler to the start of the next?

The way holds the settle, with its wait for other settles of the same worker, and the claim of the next turn. A handler's end is
its start plus the sleep that it was asked for, so a late timer counts as well.
"""

from collections.abc import Iterator

from bench.contenders import OURS
from bench.experiment import Column, Experiment, Finding, Sample, Samples, Scale, at_most, percentile
from bench.running import NotMeasuredError, Running
from bench.running import run as start
from bench.stage import Stage
from bench.svg import distributions
from bench.workloads import fill_turns

TURNS = 1000
SESSIONS = 100
TURNS_A_SESSION = 10
SLEEP_SECONDS = 0.5
WAIT_SECONDS = 120.0
ONE, MANY = "one session", "100 sessions, 500 ms"


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    yield _measure(stage, ONE, 1, scale.turns(TURNS), slots=64, sleep_seconds=0.0)
    sessions = 5 if scale.quick else SESSIONS
    yield _measure(stage, MANY, sessions, TURNS_A_SESSION, slots=SESSIONS, sleep_seconds=SLEEP_SECONDS)


def _measure(stage: Stage, case: str, sessions: int, each: int, *, slots: int, sleep_seconds: float) -> Sample:
    count = sessions * each
    with stage.room("handoff") as room:
        stage.sqs.send_all(room.queue_url, fill_turns(room, count, lambda number: f"session-{number % sessions}"))
        with start(stage, room, OURS, slots=slots, sleep_seconds=sleep_seconds) as running:
            whole = running.wait_for(lambda: running.handled() >= count, WAIT_SECONDS)
            try:
                found = _milliseconds(running, sessions, sleep_seconds)
            except NotMeasuredError as error:
                return Sample(contender=OURS.name, case=case, note=str(error))
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
    return Sample(
        contender=OURS.name,
        case=case,
        figures={name: percentile(found, share) for name, share in shares.items()} | {"turns": float(len(found))},
        series={"milliseconds": found},
        note=None if whole else f"stopped after {WAIT_SECONDS:g} s",
    )


def _milliseconds(running: Running, sessions: int, sleep_seconds: float) -> list[float]:
    starts = {start.number: start.at for start in running.starts()}
    before = ((at, starts.get(number - sessions)) for number, at in starts.items())
    return [1000 * (at - begun - sleep_seconds) for at, begun in before if begun is not None]


def judge(samples: Samples) -> list[Finding]:
    # 100 sessions begin and end together, and their settles share one core: that case is shown without a target.
    return [
        at_most(f"hand-off p50, {ONE}", samples.median("p50", OURS.name, ONE), 3, "ms"),
        at_most(f"hand-off p99, {ONE}", samples.median("p99", OURS.name, ONE), 10, "ms"),
    ]


def draw(samples: Samples) -> dict[str, str]:
    series = {case: samples.series("milliseconds", OURS.name, case) for case in (ONE, MANY)}
    return {"handoff.svg": distributions("End of one turn's handler to the start of the next", "ms", series)}


EXPERIMENT = Experiment(
    name="handoff",
    measures="milliseconds from the end of one turn's handler to the start of the session's next",
    target="one session: p50 ≤ 3 ms, p99 ≤ 10 ms",
    columns=(
        Column("p50", "p50 ms", 1),
        Column("p95", "p95", 1),
        Column("p99", "p99", 1),
        Column("most", "most", 1),
        Column("turns", "hand-offs"),
    ),
    run=run,
    judge=judge,
    draw=draw,
)
