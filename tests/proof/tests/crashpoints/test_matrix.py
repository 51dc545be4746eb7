"""Which cells there are, and in which order a seed takes them. They are played by `make crashpoints` and `make proof`."""

from pathlib import Path
from typing import cast

import pytest

from tests.proof.crashpoints.cell import Director, Result
from tests.proof.crashpoints.matrix import MOST_TRIES, Matrix, all_cells, in_order, select_cells
from tests.proof.crashpoints.passing import FAULTS
from tests.proof.crashpoints.points import read
from turnstile.dev.stack.stack import LocalStack


def test_every_point_is_struck_by_every_fault_that_can_strike_there_on_both_kinds_of_queue() -> None:
    cells = all_cells(read().points)

    assert {(cell.point, cell.fault, cell.fifo) for cell in cells} == {
        (point, fault, fifo) for point in read().points for fault in point.faults for fifo in (False, True)
    }


def test_redis_is_kept_and_flushed_wherever_a_worker_is_the_victim() -> None:
    cells = all_cells(read().points)

    assert {cell.point.verb for cell in cells if not cell.flush} - {cell.point.verb for cell in cells if cell.flush} == {
        "submit", "relay", "redrive",
    }  # fmt: skip


def test_a_seed_decides_the_order_and_takes_every_cell_once() -> None:
    cells = all_cells(read().points)

    assert in_order(cells, 7) == in_order(cells, 7) != in_order(cells, 8)
    assert sorted(cell.name for cell in in_order(cells, 7)) == sorted(cell.name for cell in cells)


@pytest.mark.parametrize("seed", range(5))
def test_any_order_begins_with_each_point_once_and_all_faults(seed: int) -> None:
    points = read().points
    sample = in_order(all_cells(points), seed)[: len(points)]

    assert {cell.point for cell in sample} == set(points)
    assert {cell.fault for cell in sample} == set(FAULTS)


def test_a_cells_own_name_selects_it_alone() -> None:
    cells = all_cells(read().points)

    assert [select_cells(cells, cell.name) for cell in cells[::97]] == [[cell] for cell in cells[::97]]


def test_a_cell_whose_fault_does_not_strike_is_played_again_and_reported_if_it_never_does(tmp_path: Path) -> None:
    class NeverStruck:
        result = Result(name="never", fault="kill", not_struck=True, problems=["the point was never reached"])

        def play(self) -> Result:
            return self.result

    matrix = Matrix(cast("LocalStack", None), tmp_path, jobs=2, seed=1)

    [result] = matrix.play(iter([lambda folder: cast("Director", NeverStruck())]))

    assert result.problems[0] == "the point was never reached"
    assert matrix.replayed == MOST_TRIES - 1
