"""Where the batches of a drop end. Pure."""

import pytest

from turnstile.ops.dead_letters.batches import slices


@pytest.mark.parametrize(
    ("many", "bounds"),
    [
        (5, [(0, 2), (2, 4), (4, 5)]),
        (4, [(0, 2), (2, 4)]),
        (1, [(0, 1)]),
        (0, []),
    ],
)
def test_no_batch_is_larger_than_its_size(many: int, bounds: list[tuple[int, int]]) -> None:
    assert list(slices(many, 2)) == bounds
