"""How a redrive and a drop divide their turns: one statement changes one batch. Pure."""

from collections.abc import Iterator
from itertools import pairwise

BATCH = 50
"""Turns per statement. Small, because the statement locks their rows, and a redrive's those of their sessions, too."""


def slices(many: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each batch of `size` turns at most."""
    return pairwise([*range(0, many, size), many])
