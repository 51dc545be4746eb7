"""Values over time: rates, percentiles, and what a counter has grown by, each in windows of the same width. Pure.

Times are seconds, of any one clock. A point stands at the middle of its window.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from bench.experiment import percentile

Point = tuple[float, float]


def windows(begun: float, ended: float, width: float) -> Iterator[tuple[float, float]]:
    """From `begun` to `ended`; what is left at the end and is no whole window is left out."""
    for number in range(int((ended - begun) / width + 1e-9)):
        yield begun + number * width, begun + (number + 1) * width


def rates(times: Iterable[float], begun: float, ended: float, width: float) -> list[Point]:
    counts = [len(inside) for inside in _values_by_window(((at, 0.0) for at in times), begun, ended, width)]
    return [
        ((low + high) / 2, count / width)
        for (low, high), count in zip(windows(begun, ended, width), counts, strict=True)
    ]


def percentiles(values: Iterable[Point], share: float, begun: float, ended: float, width: float) -> list[Point]:
    """The value that `share` (0 to 1) of a window's values lie below. A window without any has no point."""
    found = _values_by_window(values, begun, ended, width)
    return [
        ((low + high) / 2, percentile(inside, share))
        for (low, high), inside in zip(windows(begun, ended, width), found, strict=True)
        if inside
    ]


def growth(points: Sequence[Point]) -> list[Point]:
    """By how much a counter grew a second, between each two looks. One that began anew has grown by what it shows."""
    return [
        ((before[0] + after[0]) / 2, _gain(before, after) / (after[0] - before[0]))
        for before, after in itertools.pairwise(points)
    ]


def gain(points: Sequence[Point]) -> float:
    return sum(_gain(before, after) for before, after in itertools.pairwise(points))


def _gain(before: Point, after: Point) -> float:
    return after[1] - before[1] if after[1] >= before[1] else after[1]


def _values_by_window(values: Iterable[Point], begun: float, ended: float, width: float) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in windows(begun, ended, width)]
    for at, value in values:
        place = int((at - begun) / width) if at >= begun else -1
        if 0 <= place < len(found):
            found[place].append(value)
    return found
