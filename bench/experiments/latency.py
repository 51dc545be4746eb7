"""Latency: work comes at a quiet pace, and somebody waits for each piece of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import httpx

from bench.contenders import BBC, HANDMADE, OURS, TASKIQ, Contender
from bench.experiment import Column, Experiment, Finding, Sample, Samples, Scale, at_most, percentile
from bench.http_server import serve_api
from bench.running import NotMeasuredError, Running
from bench.running import run as start
from bench.stage import Stage
from bench.svg import distributions

PER_SECOND = 20
SECONDS = 20.0
WARM_UP = 20
WAIT_SECONDS = 30.0
QUEUE, POST = "queue → start", "POST → start"
FROM_QUEUE = (OURS, HANDMADE, TASKIQ, BBC)


@dataclass(frozen=True, slots=True)
class Paced:
    """When each job was sent off (just before the call), by its number."""

    sent_at: dict[int, float]

    def milliseconds(self, running: Running) -> list[float]:
        """From there to the start of its handler, for those that count."""
        starts = {start.number: start.at for start in running.starts()}
        return [1000 * (starts[number] - at) for number, at in self.sent_at.items() if number >= WARM_UP]


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    count = WARM_UP + int(PER_SECOND * scale.seconds(SECONDS))
    for contender in FROM_QUEUE:
        if scale.wants(contender.name):
            yield _measure(contender, QUEUE, lambda contender=contender: _from_queue(stage, contender, count))  # type: ignore[misc]
    yield _measure(OURS, POST, lambda: _from_post(stage, count))


def _measure(contender: Contender, case: str, measure: Callable[[], list[float]]) -> Sample:
    if missing := contender.missing():
        return Sample(contender=contender.name, case=case, note=f"not run: {missing}")
    try:
        found = measure()
    except NotMeasuredError as error:
        return Sample(contender=contender.name, case=case, note=str(error))
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "most": 1.0}
    return Sample(
        contender=contender.name,
        case=case,
        figures={name: percentile(found, share) for name, share in shares.items()},
        series={"milliseconds": found},
    )


def _from_queue(stage: Stage, contender: Contender, count: int) -> list[float]:
    with stage.room(contender.name) as room:
        # Recorded before, sent one by one: what is measured begins with the message.
        entries = contender.fill(room, count)
        with start(stage, room, contender, slots=64) as running:
            _wait_until_polling(running)
            paced = _pace(count, lambda number: stage.sqs.send(room.queue_url, entries[number]))
            running.require("through", lambda: running.handled() >= count, WAIT_SECONDS)
            return paced.milliseconds(running)


def _from_post(stage: Stage, count: int) -> list[float]:
    with ExitStack() as exits:
        room = exits.enter_context(stage.room("post"))
        api = exits.enter_context(serve_api(room, OURS.environment(room, 64, 0.0)))
        running = exits.enter_context(start(stage, room, OURS, slots=64))
        client = exits.enter_context(httpx.Client(base_url=api.address, timeout=WAIT_SECONDS))
        _wait_until_polling(running)

        def post(number: int) -> None:
            path = f"/v1/sessions/session-{number}/turns"
            client.post(path, json={"input": {"number": number}}).raise_for_status()

        paced = _pace(count, post)
        running.require("through", lambda: running.handled() >= count, WAIT_SECONDS)
        return paced.milliseconds(running)


def _wait_until_polling(running: Running) -> None:
    counts = running.stage.sqs.counts
    running.require("polling", lambda: counts(running.room.queue).first_receive_at is not None, WAIT_SECONDS)


def _pace(count: int, send: Callable[[int], None]) -> Paced:
    sent_at = {}
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / PER_SECOND - time.monotonic()))
        sent_at[number] = time.time()
        send(number)
    return Paced(sent_at)


def judge(samples: Samples) -> list[Finding]:
    ours, posted = (OURS.name, QUEUE), (OURS.name, POST)
    p50, p99 = samples.values("p50", *ours), samples.values("p99", *ours)
    spread = max((p99[place] / p50[place] for place in p50), default=None)
    return [
        at_most("queue → start p50, of `handmade`", samples.ratio("p50", ours, (HANDMADE.name, QUEUE)), 1),
        at_most("queue → start, p99 of p50 (worst round)", spread, 3),
        at_most("POST → start p50, of queue → start", samples.ratio("p50", posted, ours), 2),
    ]


def draw(samples: Samples) -> dict[str, str]:
    series = {f"{name}, {case}": samples.series("milliseconds", name, case) for case, name in samples.rows()}
    return {"latency.svg": distributions(f"To the start of the handler, {PER_SECOND}/s", "ms", series)}


EXPERIMENT = Experiment(
    name="latency",
    measures=f"milliseconds to the start of the handler at {PER_SECOND} turns a second",
    target="queue → start: p50 ≤ handmade's, p99 ≤ 3 x p50; POST → start: p50 ≤ 2 x that",
    columns=(Column("p50", "p50 ms", 1), Column("p95", "p95", 1), Column("p99", "p99", 1), Column("most", "most", 1)),
    run=run,
    judge=judge,
    draw=draw,
)
