"""Calls: how many SQS requests a thousand turns need when there is much to do, and what an idle worker costs.

Much to do: as many submits through the API as its clients can make, and then a worker that finds them all in the queue.
"""

import time
from collections.abc import Iterator
from functools import partial

from bench.contenders import OURS
from bench.drains import figures
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.http_load import load
from bench.http_server import serve_api
from bench.running import OF_A_RECEIVER, attempt
from bench.running import run as start
from bench.stage import Stage

CLIENTS = 64
SUBMIT_SECONDS = 10.0
IDLE_SECONDS = 60.0
SETTLING_SECONDS = 5.0
WAIT_SECONDS = 60.0


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    yield attempt(OURS, partial(_busy, stage, scale.seconds(SUBMIT_SECONDS)), "busy")
    yield attempt(OURS, partial(_idle, stage, scale), "idle")


def _busy(stage: Stage, seconds: float) -> dict[str, float]:
    with stage.room("busy") as room:
        with serve_api(room, OURS.environment(room, 64, 0.0)) as api:
            accepted = len(load(api.port, clients=CLIENTS, seconds=seconds).milliseconds)
        with start(stage, room, OURS, slots=64) as running:
            running.require_handled(accepted, WAIT_SECONDS)
            running.require_empty(WAIT_SECONDS)
            calls = stage.sqs.counts(room.queue).calls
    by_kind = {
        kind: 1000 * sum(count for action, count in calls.items() if action.startswith(kind)) / accepted
        for kind in ("Send", "Receive", "Delete")
    }
    total = 1000 * sum(calls.get(action, 0) for action in OF_A_RECEIVER) / accepted
    return {"turns": float(accepted), "calls_per_1000": total, **by_kind}


def _idle(stage: Stage, scale: Scale) -> dict[str, float]:
    with stage.room("idle") as room, start(stage, room, OURS, slots=64) as running:
        running.require_polling(WAIT_SECONDS)
        time.sleep(scale.seconds(SETTLING_SECONDS))
        before = running.look()
        time.sleep(scale.seconds(IDLE_SECONDS))
        after = running.look()
    found = figures(before, after)
    return {
        "worker_percent": 100 * found["worker_cores"],
        "calls_per_minute": 60 * (after.calls - before.calls) / found["seconds"],
        "other_cores": found["other_cores"],
    }


def judge(samples: Samples) -> list[TargetResult]:
    return [
        at_most("SQS requests for 1,000 turns", samples.median("calls_per_1000", OURS.name, "busy"), 320, "calls"),
        at_most("CPU when idle", samples.median("worker_percent", OURS.name, "idle"), 0.5, "% of a core"),
        at_most("SQS requests when idle", samples.median("calls_per_minute", OURS.name, "idle"), 4, "a minute"),
    ]


EXPERIMENT = Experiment(
    name="calls",
    measures="SQS requests (send, receive, delete) for 1,000 turns when busy; CPU and requests when idle",
    columns=(
        Column("calls_per_1000", "SQS calls/1,000"),
        *(Column(kind, kind.lower()) for kind in ("Send", "Receive", "Delete")),
        Column("worker_percent", "% of a core", 2),
        Column("calls_per_minute", "SQS calls/min", 1),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
