"""Calls: how many SQS requests a thousand turns need when there is much to do, and what an idle worker costs."""

import time
from collections.abc import Iterator

from bench.contenders import OURS
from bench.drains import Work, drain, figures
from bench.experiment import Column, Experiment, Finding, Sample, Samples, Scale, at_most
from bench.running import run as start
from bench.stage import Stage

TURNS = 5000
SEND_CALLS = 100.0
"""A submit of a thousand turns sends them ten a call, when it is busy: the harness did the sending here."""
IDLE_SECONDS = 60.0
SETTLING_SECONDS = 5.0
START_SECONDS = 30.0


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    busy = drain(stage, OURS, Work(count=scale.turns(TURNS)))
    busy["calls_per_1000"] += SEND_CALLS
    yield Sample(contender=OURS.name, case="busy", figures=busy)
    with stage.room("idle") as room, start(stage, room, OURS, slots=64) as running:
        running.require(
            "polling", lambda: stage.sqs.counts(room.queue).calls.get("ReceiveMessage", 0) > 0, START_SECONDS
        )
        time.sleep(scale.seconds(SETTLING_SECONDS))
        before = running.look()
        time.sleep(scale.seconds(IDLE_SECONDS))
        after = running.look()
    found = figures(before, after)
    calls = 60 * (after.calls - before.calls) / found["seconds"]
    yield Sample(
        contender=OURS.name,
        case="idle",
        figures={
            "worker_percent": 100 * found["worker_cores"],
            "calls_per_minute": calls,
            "other_cores": found["other_cores"],
        },
    )


def judge(samples: Samples) -> list[Finding]:
    return [
        at_most("SQS requests for 1,000 turns", samples.median("calls_per_1000", OURS.name, "busy"), 320, "calls"),
        at_most("CPU when idle", samples.median("worker_percent", OURS.name, "idle"), 0.5, "% of a core"),
        at_most("SQS requests when idle", samples.median("calls_per_minute", OURS.name, "idle"), 4, "a minute"),
    ]


EXPERIMENT = Experiment(
    name="calls",
    measures="SQS requests (send, receive, delete) for 1,000 turns when busy; CPU and requests when idle",
    target="≤ 320 for 1,000 turns; idle: 20 s long polls, < 0.5 % of a core",
    columns=(
        Column("calls_per_1000", "SQS calls/1,000"),
        Column("worker_percent", "% of a core", 2),
        Column("calls_per_minute", "SQS calls/min", 1),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
