"""Start: from the exec of `turnstile worker` to its first receive, and to the first handler."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from statistics import median

from bench.contenders import HANDMADE, OURS, Contender
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.launch import NotMeasuredError
from bench.running import attempt
from bench.running import run as start
from bench.stage import Stage

STARTS = 3
WAIT_SECONDS = 30.0


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    # One after the other and in turn, as in the rounds: a start of both within the same seconds.
    samples = [
        attempt(contender, partial(_start_once, stage, contender))
        for _ in range(1 if scale.quick else STARTS)
        for contender in (OURS, HANDMADE)
    ]
    for contender in (OURS, HANDMADE):
        mine = [sample for sample in samples if sample.contender == contender.name]
        names = mine[0].figures
        yield replace(mine[0], figures={name: median(one.figures[name] for one in mine) for name in names})


def _start_once(stage: Stage, contender: Contender) -> dict[str, float]:
    with stage.room("start") as room:
        stage.sqs.send_all(room.queue_url, contender.fill(room, 1))
        with start(stage, room, contender, slots=64) as running:
            running.require("at work", lambda: running.handled() > 0, WAIT_SECONDS)
            received_at = stage.sqs.counts(room.queue).first_receive_at
            if received_at is None:
                raise NotMeasuredError(f"{contender.name} worked without a receive")
            return {
                "receive_seconds": received_at - running.started_at,
                "handler_seconds": running.starts()[0].at - running.started_at,
                "cpu_seconds": running.tree.cpu_seconds(),
            }


def judge(samples: Samples) -> list[TargetResult]:
    return [at_most("exec to first receive", samples.median("receive_seconds", OURS.name), 1.5, "s")]


EXPERIMENT = Experiment(
    name="start",
    measures="seconds from exec to the first receive, and to the first handler",
    columns=(
        Column("receive_seconds", "to receive, s", 2),
        Column("handler_seconds", "to handler, s", 2),
        Column("cpu_seconds", "CPU s", 2),
    ),
    run=run,
    judge=judge,
)
