"""Telemetry: the same drain with metrics, and with traces of some turns or of all. What it adds to a turn's CPU."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import httpx

from bench.contenders import OURS
from bench.drains import Work, drain
from bench.emulated_sqs import Entry
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_most
from bench.http_server import serve_collector
from bench.launch import NotMeasuredError
from bench.running import attempt
from bench.stage import Room, Stage
from bench.workloads import fill_turns

TURNS = 12_000
SLOTS = 64
ONE_OF = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    is_traced: Callable[[int], bool] | None = None
    """Which turns the submitter has sampled; None: the worker exports no traces."""


OFF = Case(name="off")
METRICS = Case(name="metrics", settings={"TURNSTILE_METRICS_PORT": "0"})
SOME = replace(METRICS, name=f"metrics, 1 of {ONE_OF} turns traced", is_traced=lambda number: number % ONE_OF == 0)
ALL_TURNS = replace(METRICS, name="metrics, all turns traced", is_traced=lambda number: True)


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    work = Work(count=scale.turns(TURNS), slots=SLOTS)
    for case in (OFF, METRICS, SOME, ALL_TURNS):
        yield attempt(OURS, partial(_measure, stage, case, work), case.name)


def _measure(stage: Stage, case: Case, work: Work) -> dict[str, float]:
    is_traced = case.is_traced
    if is_traced is None:
        return drain(stage, replace(OURS, settings=case.settings), work)

    def fill(room: Room, count: int) -> list[Entry]:
        return fill_turns(room, count, is_traced=is_traced)

    with serve_collector(stage.folder) as collector:
        settings = {**case.settings, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.address}/v1/traces"}
        found = drain(stage, replace(OURS, settings=settings), work, fill)
        if not httpx.get(f"{collector.address}/taken").json():
            raise NotMeasuredError("the worker has exported no span")
        return found


def judge(samples: Samples) -> list[TargetResult]:
    def costs(case: Case) -> float | None:
        return samples.ratio("worker_cpu_ms", (OURS.name, case.name), (OURS.name, OFF.name))

    return [
        at_most("CPU a turn with metrics, of none", costs(METRICS), 1.05),
        at_most(f"CPU a turn with metrics and 1 of {ONE_OF} turns traced, of none", costs(SOME), 1.05),
    ]


EXPERIMENT = Experiment(
    name="telemetry",
    measures=f"a drain, {SLOTS} in flight, with metrics and traces",
    columns=(
        Column("worker_cpu_ms", "CPU ms/turn", 4),
        Column("turns_per_second", "turns/s"),
        Column("rss_mb", "RSS MB"),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
