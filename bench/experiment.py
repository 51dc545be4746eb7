"""The frame that experiments share: what one says of itself, what it brings home, and how that is judged."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done. `quick` is for seeing that it works: its figures say nothing."""

    quick: bool = False
    full: bool = False
    """The sizes that the targets name, where they take hours."""
    contenders: tuple[str, ...] = ()
    """Only these; all when empty."""

    def turns(self, count: int) -> int:
        """So many turns, or a twentieth of them."""
        return max(40, count // 20) if self.quick else count

    def seconds(self, wanted: float) -> float:
        """So many seconds, or two."""
        return min(2.0, wanted) if self.quick else wanted

    def wants(self, contender: str) -> bool:
        return not self.contenders or contender in self.contenders


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What one measurement gave."""

    contender: str
    case: str = ""
    """Which of the experiment's cases, where it has several."""
    figures: Mapping[str, float] = field(default_factory=dict)
    note: str | None = None
    """Why there are no figures, or what must be known about them."""
    round: int = 0


@dataclass(frozen=True, slots=True)
class TargetResult:
    """One target, and what was found. `met` is None where nothing could be said."""

    what: str
    found: str
    target: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Column:
    figure: str
    title: str
    digits: int = 0


TIMES = (Column("p50", "p50 ms", 1), Column("p95", "p95", 1), Column("p99", "p99", 1), Column("most", "most", 1))


class Samples:
    def __init__(self, samples: Sequence[Sample]) -> None:
        self.all = samples

    def rows(self) -> list[tuple[str, str]]:
        """Case and contender, in the order in which they were first measured."""
        return list(dict.fromkeys((sample.case, sample.contender) for sample in self.all))

    def values(self, figure: str, contender: str, case: str = "") -> dict[int, float]:
        return {
            sample.round: sample.figures[figure]
            for sample in self.all
            if sample.contender == contender and sample.case == case and figure in sample.figures
        }

    def median(self, figure: str, contender: str, case: str = "") -> float | None:
        """Over the rounds; None if it was not measured."""
        values = self.values(figure, contender, case)
        return median(values.values()) if values else None

    def ratio(self, figure: str, over: tuple[str, str], under: tuple[str, str]) -> float | None:
        """How many times the one is of the other, each a (contender, case): the median of the rounds' ratios.

        Two that were measured within the same minute had the same machine; their medians over an hour had not.
        """
        above, below = self.values(figure, *over), self.values(figure, *under)
        ratios = [above[place] / below[place] for place in above.keys() & below.keys() if below[place]]
        return median(ratios) if ratios else None

    def notes(self, contender: str, case: str = "") -> list[str]:
        """What must be known about them, once each."""
        found = (one.note for one in self.all if one.contender == contender and one.case == case and one.note)
        return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    name: str
    measures: str
    columns: Sequence[Column]
    run: Callable[[Stage, Scale], Iterator[Sample]]
    """One round: every contender once."""
    judge: Callable[[Samples], list[TargetResult]] = lambda samples: []


def at_least(what: str, value: float | None, bound: float, unit: str = "x") -> TargetResult:
    return TargetResult(what, _with_unit(value, unit), f"≥ {bound:g} {unit}", None if value is None else value >= bound)


def at_most(what: str, value: float | None, bound: float, unit: str = "x") -> TargetResult:
    return TargetResult(what, _with_unit(value, unit), f"≤ {bound:g} {unit}", None if value is None else value <= bound)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` (0 to 1) of all lie below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _with_unit(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.3g} {unit}"
