"""Slots: handlers that wait, as a model's answer is waited for. How full does one process keep its slots?"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from bench.contenders import CELERY, HANDMADE, OURS, Contender
from bench.drains import Work, drain
from bench.experiment import Column, Experiment, Sample, Samples, Scale, TargetResult, at_least
from bench.running import attempt
from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Case:
    """So many slots, and how long a handler takes. `rounds`: how often each slot is filled; by tens, because the slots fill in
    waves, and the middle 80 % shall begin and end with one.
    """

    slots: int
    sleep_seconds: float
    rounds: int
    share: float
    """The share of the ideal that the product must reach."""
    against: tuple[Contender, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.slots:,} slots, {self.sleep_seconds:g} s"

    @property
    def ideal(self) -> float:
        """Turns a second if no slot were ever empty."""
        return self.slots / self.sleep_seconds


CASES = (
    Case(64, 0.2, 30, 0.95, (HANDMADE, CELERY)),
    Case(256, 0.2, 20, 0.90, (HANDMADE,)),
    Case(1000, 2.0, 10, 0.90),
)


def run(stage: Stage, scale: Scale) -> Iterator[Sample]:
    for case in CASES:
        rounds = 10 if scale.quick else case.rounds
        work = Work(count=case.slots * rounds, slots=case.slots, sleep_seconds=case.sleep_seconds)
        for contender in (OURS, *case.against):
            if scale.wants(contender.name):
                yield attempt(contender, partial(_measure, stage, contender, case, work), case.name)


def _measure(stage: Stage, contender: Contender, case: Case, work: Work) -> dict[str, float]:
    found = drain(stage, contender, work)
    return found | {"percent": 100 * found["middle_per_second"] / case.ideal}


def judge(samples: Samples) -> list[TargetResult]:
    return [
        at_least(f"of the ideal at {case.name}", samples.median("percent", OURS.name, case.name), 100 * case.share, "%")
        for case in CASES
    ]


EXPERIMENT = Experiment(
    name="slots",
    measures="turns a second with handlers that wait, over the middle 80 % of the turns, as a share of slots / seconds",
    columns=(
        Column("percent", "% of the ideal", 1),
        Column("middle_per_second", "turns/s"),
        Column("worker_cpu_ms", "CPU ms/turn", 3),
        Column("worker_cores", "cores", 2),
        Column("rss_mb", "RSS MB"),
        Column("other_cores", "others' cores", 2),
    ),
    run=run,
    judge=judge,
)
