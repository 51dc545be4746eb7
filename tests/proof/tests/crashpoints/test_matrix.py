"""Which cells there are. `make crashpoints` and `make proof` play them."""

from pathlib import Path
from typing import cast

from tests.proof.crashpoints.cell import Director, Result
from tests.proof.crashpoints.matrix import MOST_TRIES, Matrix, all_cells
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
        "submit", "relay", "redrive", "erase",
    }  # fmt: skip


def test_a_cell_whose_fault_does_not_strike_is_played_again_and_reported_if_it_never_does(tmp_path: Path) -> None:
    class NeverStruck:
        result = Result(name="never", fault="kill", not_struck=True, problems=["the point was never reached"])

        def play(self) -> Result:
            return self.result

    matrix = Matrix(cast("LocalStack", None), tmp_path, jobs=2, seed=1)

    [result] = matrix.play(iter([lambda folder: cast("Director", NeverStruck())]))

    assert result.problems[0] == "the point was never reached"
    assert matrix.replayed == MOST_TRIES - 1
