"""Latency: work comes at a quiet pace, and a client waits for each piece of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import httpx
import psycopg

from bench.contenders import BBC, HANDMADE, OURS, TASKIQ, Contender
from bench.experiment import TIMES, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.http_server import serve_api
from bench.running import Running, attempt_times
from bench.running import run as start
from bench.stage import Stage
from turnstile import Submitter
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings

PER_SECOND = 20
SECONDS = 20.0
WARM_UP = 20
WAIT_SECONDS = 30.0
QUEUE, POST, COMMIT = "queue → start", "POST → start", "submit in a transaction → start"
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
            yield attempt_times(contender, partial(_from_queue, stage, contender, count), QUEUE)
    yield attempt_times(OURS, partial(_from_post, stage, count), POST)
    yield attempt_times(OURS, partial(_from_commit, stage, count), COMMIT)


def _from_queue(stage: Stage, contender: Contender, count: int) -> list[float]:
    with stage.room(contender.name) as room:
        # Recorded before, sent one by one: what is measured begins with the message.
        entries = contender.fill(room, count)
        with start(stage, room, contender, slots=64) as running:
            running.require_polling(WAIT_SECONDS)
            paced = _pace(count, lambda number: stage.sqs.send(room.queue_url, entries[number]))
            running.require_handled(count, WAIT_SECONDS)
            return paced.milliseconds(running)


def _from_post(stage: Stage, count: int) -> list[float]:
    with ExitStack() as exits:
        room = exits.enter_context(stage.room("post"))
        api = exits.enter_context(serve_api(room, OURS.environment(room, 64, 0.0)))
        running = exits.enter_context(start(stage, room, OURS, slots=64))
        client = exits.enter_context(httpx.Client(base_url=api.address, timeout=WAIT_SECONDS))
        running.require_polling(WAIT_SECONDS)

        def post(number: int) -> None:
            path = f"/v1/sessions/session-{number}/turns"
            client.post(path, json={"input": {"number": number}}).raise_for_status()

        paced = _pace(count, post)
        running.require_handled(count, WAIT_SECONDS)
        return paced.milliseconds(running)


def _from_commit(stage: Stage, count: int) -> list[float]:
    """An application submits and commits; the worker's relay hears of it."""
    with ExitStack() as exits:
        room = exits.enter_context(stage.room("commit"))
        running = exits.enter_context(start(stage, room, OURS, slots=64))
        connection = exits.enter_context(psycopg.connect(room.database_url))
        submitter = Submitter(Settings(database_url=room.database_url, queues=(QueueSettings(name=room.queue),)))
        running.require_polling(WAIT_SECONDS)

        def commit(number: int) -> None:
            submitter.submit(connection, f"session-{number}", {"number": number}, queue=room.queue)
            connection.commit()

        paced = _pace(count, commit)
        running.require_handled(count, WAIT_SECONDS)
        return paced.milliseconds(running)


def _pace(count: int, send: Callable[[int], None]) -> Paced:
    sent_at = {}
    begun = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, begun + number / PER_SECOND - time.monotonic()))
        sent_at[number] = time.time()
        send(number)
    return Paced(sent_at)


def judge(samples: Samples) -> list[TargetResult]:
    ours, posted = (OURS.name, QUEUE), (OURS.name, POST)
    committed = samples.median("p50", OURS.name, COMMIT)
    p50, p99 = samples.values("p50", *ours), samples.values("p99", *ours)
    spread = max((p99[place] / p50[place] for place in p50), default=None)
    return [
        at_most("queue → start p50, of `handmade`", samples.ratio("p50", ours, (HANDMADE.name, QUEUE)), 1),
        at_most("queue → start, p99 of p50 (worst round)", spread, 3),
        at_most("POST → start p50, of queue → start", samples.ratio("p50", posted, ours), 2),
        at_most("submit in a transaction → start p50", committed, 50, "ms"),
    ]


EXPERIMENT = Experiment(
    name="latency",
    measures=f"milliseconds to the start of the handler at {PER_SECOND} turns a second",
    columns=TIMES,
    run=run,
    judge=judge,
)
