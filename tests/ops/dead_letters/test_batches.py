"""Where the batches of a redrive end. Pure."""

import pytest

from turnstile.ops.dead_letters.batches import slices


@pytest.mark.parametrize(
    ("many", "size", "first", "bounds"),
    [
        (5, 2, 0, [(0, 2), (2, 4), (4, 5)]),
        (4, 2, 0, [(0, 2), (2, 4)]),
        (7, 3, 4, [(0, 3), (3, 4), (4, 7)]),
        (2, 3, 4, [(0, 2)]),
        (0, 3, 0, []),
    ],
)
def test_one_batch_ends_after_the_canary(many: int, size: int, first: int, bounds: list[tuple[int, int]]) -> None:
    assert list(slices(many, size, first)) == bounds
