"""Limits: the same drain with two limits for all workers and a thousand keys, none of which is ever full. What asking costs."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bench.contenders import OURS
from bench.drains import Work, drain
from bench.emulated_sqs import Entry
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_least
from bench.running import attempt
from bench.stage import Room, Stage
from bench.workloads import fill_turns_of_keys

TURNS = 12_000
SLOTS = 64
KEYS = 1000
MUCH = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    settings: Mapping[str, str] = field(default_factory=dict)


def _two(key: str) -> dict[str, str]:
    of_key: dict[str, Any] = {"name": "keys", "key": key, "concurrency": MUCH, "rate": MUCH}
    of_queue: dict[str, Any] = {"name": "queues", "key": "queue", "concurrency": MUCH, "rate": MUCH}
    return {"TURNSTILE_LIMITS": json.dumps([of_key, of_queue])}


OFF = Case(name="off")
BY_TENANT = Case(name=f"by queue and {KEYS} tenants", settings=_two("tenant"))
BY_METADATA = Case(name=f"by queue and {KEYS} values of metadata", settings=_two("metadata.key"))


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    work = Work(count=scale.turns(TURNS), slots=SLOTS)
    for case in (OFF, BY_TENANT, BY_METADATA):
        yield attempt(OURS, partial(_measure, stage, case, work), case.name)


def _measure(stage: Stage, case: Case, work: Work) -> dict[str, float]:
    def fill(room: Room, count: int) -> list[Entry]:
        return fill_turns_of_keys(room, count, KEYS)

    return drain(stage, replace(OURS, settings=case.settings), work, fill)


def judge(samples: Samples) -> list[TargetResult]:
    def speed(case: Case) -> float | None:
        return samples.ratio("turns_per_second", (OURS.name, case.name), (OURS.name, OFF.name))

    return [
        at_least(f"drain with limits {BY_TENANT.name}, of none", speed(BY_TENANT), 0.95),
        at_least(f"drain with limits {BY_METADATA.name}, of none", speed(BY_METADATA), 0.95),
    ]


EXPERIMENT = Experiment(
    name="limits",
    measures=f"a drain of {KEYS:,} tenants, {SLOTS} in flight, with two limits and without",
    columns=(
        Column("turns_per_second", "turns/s"),
        Column("worker_cpu_ms", "CPU ms/turn", 3),
        Column("postgres_cpu_ms", "Postgres ms/turn", 3),
        Column("redis_cpu_ms", "Redis ms/turn", 3),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
