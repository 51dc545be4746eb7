"""When workers come and go."""

import pytest

from tests.proof.load.scaling import Scaling


@pytest.fixture
def scaling() -> Scaling:
    return Scaling(least=1, most=4, per_worker=10.0, calm_seconds=30.0)


@pytest.mark.parametrize(("in_hand", "wanted"), [(0, 1), (10, 1), (11, 2), (25, 3), (400, 4)])
def test_as_many_workers_as_the_backlog_needs_come_at_once(scaling: Scaling, in_hand: int, wanted: int) -> None:
    assert scaling.want(1, in_hand, 0.0) == wanted


def test_one_goes_after_a_while_without_work_for_so_many(scaling: Scaling) -> None:
    assert scaling.want(3, 5, 0.0) == 3
    assert scaling.want(3, 5, 29.9) == 3
    assert scaling.want(3, 5, 30.0) == 2
    # And the next one after as long again.
    assert scaling.want(2, 5, 31.0) == 2
    assert scaling.want(2, 5, 61.0) == 1
    assert scaling.want(1, 0, 200.0) == 1


def test_a_burst_begins_the_wait_anew(scaling: Scaling) -> None:
    assert scaling.want(3, 5, 0.0) == 3
    assert scaling.want(3, 30, 29.0) == 3
    assert scaling.want(3, 5, 31.0) == 3
    assert scaling.want(3, 5, 61.0) == 2
