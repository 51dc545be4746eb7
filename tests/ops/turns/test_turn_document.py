"""The times of a turn, by their one definition."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.support.records import SUBMITTED, make_record
from turnstile.ops.turns.turn_document import TurnTimes, measure_turn


def after(seconds: float | None) -> Any:
    return None if seconds is None else SUBMITTED + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("first_started", "finished", "times"),
    [
        (None, None, (60, None, 60)),
        (None, 40, (40, None, 40)),
        (5, None, (5, 55, 60)),
        (5, 30, (5, 25, 30)),
    ],
    ids=["waits", "cancelled while it waited", "runs", "ended"],
)
def test_the_times_of_a_turn(
    first_started: float | None, finished: float | None, times: tuple[float, float | None, float]
) -> None:
    turn = replace(make_record(UUID(int=1)), first_started_at=after(first_started), finished_at=after(finished))

    waiting, running, total = times
    assert measure_turn(turn, after(60)) == TurnTimes(
        waiting_seconds=waiting, running_seconds=running, total_seconds=total
    )


def test_a_clock_that_is_behind_makes_no_negative_time() -> None:
    assert measure_turn(make_record(UUID(int=1)), after(-5)).waiting_seconds == 0
