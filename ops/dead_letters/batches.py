"""How a redrive and a drop divide their turns: one statement changes one batch. Pure."""

from collections.abc import Iterator
from itertools import pairwise

BATCH = 50
"""Turns per statement. Small, because the statement locks their rows, and a redrive's those of their sessions, too."""


def slices(many: int, size: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Start and end of each batch of `size` turns at most. One batch ends after the `first` turns."""
    bounds = [*range(0, min(first, many), size), *range(min(first, many), many, size), many]
    return ((start, end) for start, end in pairwise(bounds) if start < end)
