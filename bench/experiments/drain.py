"""Drain: the queue is full and the handler does nothing. What the machinery itself costs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from bench.contenders import CONTENDERS, OURS
from bench.drains import Work, drain
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_least, at_most
from bench.running import attempt
from bench.stage import Stage

TURNS = 6000
SLOTS = 64
MOST_SECONDS = 30.0


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    for contender in CONTENDERS.values():
        if not scale.wants(contender.name):
            continue
        count = scale.turns(TURNS * contender.share // 100)
        work = Work(count=count, slots=SLOTS, most_seconds=MOST_SECONDS)
        sample = attempt(contender, partial(drain, stage, contender, work))
        yield replace(sample, note=sample.note or _note(sample.figures))


def _note(found: Mapping[str, float]) -> str | None:
    notes = []
    if found and not found["whole"]:
        notes.append(f"stopped after {MOST_SECONDS:g} s")
    if found and found["duplicates"]:
        notes.append(f"{found['duplicates']:.0f} handled twice")
    return "; ".join(notes) or None


def judge(samples: Samples) -> list[TargetResult]:
    def faster(than: str) -> float | None:
        return samples.ratio("turns_per_second", (OURS.name, ""), (than, ""))

    def costs(than: str) -> float | None:
        return samples.ratio("worker_cpu_ms", (OURS.name, ""), (than, ""))

    return [
        at_least("drain, of `handmade`", faster("handmade"), 10),
        at_least("drain, of Celery", faster("celery"), 8),
        at_least("drain, of taskiq", faster("taskiq"), 1),
        at_least("drain, of bbc", faster("bbc"), 1),
        at_most("CPU a turn, of the floor", costs("floor"), 2),
        at_most("CPU a turn, of bbc", costs("bbc"), 1),
    ]


EXPERIMENT = Experiment(
    name="drain",
    measures=f"turns a second from a full queue, a handler that does nothing, {SLOTS} in flight; CPU a turn",
    columns=(
        Column("turns_per_second", "turns/s"),
        Column("worker_cpu_ms", "CPU ms/turn", 3),
        Column("worker_cores", "cores", 2),
        Column("postgres_cpu_ms", "Postgres ms/turn", 3),
        Column("redis_cpu_ms", "Redis ms/turn", 3),
        Column("calls_per_1000", "SQS calls/1,000"),
        Column("rss_mb", "RSS MB"),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
