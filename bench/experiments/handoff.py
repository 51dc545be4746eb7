"""Hand-off: the turns of a session stand in line, and one is settled. How long until the next one's handler begins?

Taken from `finished_at` in the row, which the settling statement writes just before it commits: the commit is within what
is measured. A settle that waits for others' settles before it is not in it; so the whole way from the end of one handler to the
start of the next is in the table beside it: from its start and the sleep that was asked for, so a timer that is late is in it.
"""

from collections.abc import Iterator

import psycopg

from bench.contenders import OURS
from bench.experiment import Column, Experiment, Finding, Sample, Samples, Scale, at_most, percentile
from bench.fillings import fill_turns
from bench.running import NotMeasuredError, Running
from bench.running import run as start
from bench.stage import Room, Stage
from bench.svg import distributions

TURNS = 1000
SESSIONS = 100
TURNS_A_SESSION = 10
SLEEP_SECONDS = 0.5
WAIT_SECONDS = 120.0
ONE, MANY = "one session", "100 sessions, 500 ms"

PAIRS = """
SELECT (m.content ->> 'number')::int AS number, extract(epoch FROM before.finished_at)::float8 AS settled_at
  FROM turns t
  JOIN turns before ON before.tenant_id = t.tenant_id AND before.session_id = t.session_id AND before.seq = t.seq - 1
  JOIN messages m ON m.turn_id = t.id AND m.role = 'user'
 WHERE before.status = 'SUCCEEDED'
"""


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
                running.require("settled", lambda: _settled(room) >= running.handled() or not whole, WAIT_SECONDS)
                found = _milliseconds(running)
                whole_way = _whole_way(running, sessions, sleep_seconds)
            except NotMeasuredError as error:
                return Sample(contender=OURS.name, case=case, note=str(error))
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
    way = {f"from the end {name}": percentile(whole_way, shares[name]) for name in ("p50", "p99")}
    return Sample(
        contender=OURS.name,
        case=case,
        figures={name: percentile(found, share) for name, share in shares.items()} | way | {"turns": float(len(found))},
        series={"milliseconds": found},
        note=None if whole else f"stopped after {WAIT_SECONDS:g} s",
    )


def _settled(room: Room) -> int:
    with psycopg.connect(room.database_url) as connection:
        row = connection.execute("SELECT count(*) FROM turns WHERE finished_at IS NOT NULL").fetchone()
        return int(row[0]) if row else 0


def _milliseconds(running: Running) -> list[float]:
    starts = {start.number: start.at for start in running.starts()}
    with psycopg.connect(running.room.database_url) as connection:
        pairs = connection.execute(PAIRS).fetchall()
    return [1000 * (starts[number] - settled_at) for number, settled_at in pairs if number in starts]


def _whole_way(running: Running, sessions: int, sleep_seconds: float) -> list[float]:
    starts = {start.number: start.at for start in running.starts()}
    before = ((at, starts.get(number - sessions)) for number, at in starts.items())
    return [1000 * (at - begun - sleep_seconds) for at, begun in before if begun is not None]


def judge(samples: Samples) -> list[Finding]:
    return [
        finding
        for case in (ONE, MANY)
        for finding in (
            at_most(f"hand-off p50, {case}", samples.median("p50", OURS.name, case), 3, "ms"),
            at_most(f"hand-off p99, {case}", samples.median("p99", OURS.name, case), 10, "ms"),
        )
    ]


def draw(samples: Samples) -> dict[str, str]:
    series = {case: samples.series("milliseconds", OURS.name, case) for case in (ONE, MANY)}
    return {"handoff.svg": distributions("Settle of one turn to the start of the next", "ms", series)}


EXPERIMENT = Experiment(
    name="handoff",
    measures="milliseconds from the settle of one turn to the start of the session's next",
    target="p50 ≤ 3 ms, p99 ≤ 10 ms",
    columns=(
        Column("p50", "p50 ms", 1),
        Column("p95", "p95", 1),
        Column("p99", "p99", 1),
        Column("most", "most", 1),
        Column("from the end p50", "handler's end to start p50", 1),
        Column("from the end p99", "handler's end to start p99", 1),
        Column("turns", "hand-offs"),
    ),
    run=run,
    judge=judge,
    draw=draw,
)
