"""Memory: what a worker weighs at 64 slots, and what each further slot adds while its handler waits."""

from collections.abc import Iterator
from functools import partial

from bench.contenders import OURS
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.running import attempt
from bench.running import run as start
from bench.stage import Stage

FEW, MANY = 64, 1064
SLEEP_SECONDS = 2.0
ROUNDS = 3
"""How often each slot is filled before it is weighed: an allocator takes its time."""
WAIT_SECONDS = 120.0


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    for slots in (FEW, MANY):
        yield attempt(OURS, partial(_weigh, stage, slots), f"{slots:,} slots")


def _weigh(stage: Stage, slots: int) -> dict[str, float]:
    heaviest = 0
    with stage.room("memory") as room:
        count = slots * ROUNDS
        stage.sqs.send_all(room.queue_url, OURS.fill(room, count))
        with start(stage, room, OURS, slots=slots, sleep_seconds=SLEEP_SECONDS) as running:

            def handled_all() -> bool:
                nonlocal heaviest
                heaviest = max(heaviest, running.tree.rss_bytes())
                return running.handled() >= count

            running.require("through", handled_all, WAIT_SECONDS)
    return {"rss_mb": heaviest / 1e6, "slots": float(slots)}


def judge(samples: Samples) -> list[TargetResult]:
    few, many = (samples.median("rss_mb", OURS.name, f"{slots:,} slots") for slots in (FEW, MANY))
    each = None if few is None or many is None else 1000 * (many - few) / (MANY - FEW)
    return [at_most("RSS at 64 slots", few, 120, "MB"), at_most("RSS for each further slot", each, 30, "KB")]


EXPERIMENT = Experiment(
    name="memory",
    measures="the most memory (RSS) of the worker while all its slots wait for their handlers",
    columns=(Column("rss_mb", "RSS MB", 1),),
    run=run,
    judge=judge,
)
