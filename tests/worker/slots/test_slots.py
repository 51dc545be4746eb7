"""Slots: as many handlers at a time as there are slots, first in, first out; and how many turns are prefetched."""

import time

import pytest

from turnstile.worker.slots.slots import PACE_SECONDS, QUICK_SECONDS, Slots


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic", found)
    return found


def end(slots: Slots, times: int, ran_seconds: float = 0.2) -> None:
    for _ in range(times):
        assert slots.take()
        slots.give_back(ran_seconds)


# --- taking and giving back


def test_the_number_of_slots_is_limited() -> None:
    slots = Slots(2)

    assert [slots.take() for _ in range(3)] == [True, True, False]
    slots.give_back()
    assert [slots.take() for _ in range(2)] == [True, False]


async def test_the_first_in_line_gets_the_next_slot() -> None:
    slots = Slots(1)
    slots.take()
    first, second = slots.stand_in_line(), slots.stand_in_line()

    slots.give_back()

    assert (first.done(), second.done()) == (True, False)
    assert not slots.take()


async def test_a_place_that_was_left_is_passed_over() -> None:
    slots = Slots(1)
    slots.take()
    first, second = slots.stand_in_line(), slots.stand_in_line()

    assert not slots.leave(first)
    slots.give_back()

    assert second.done()
    assert slots.leave(second)


async def test_leaving_after_the_slot_was_assigned_keeps_the_slot() -> None:
    slots = Slots(1)
    slots.take()
    place = slots.stand_in_line()
    slots.give_back()

    assert slots.leave(place)
    assert not slots.take()


def test_a_slot_that_is_given_back_is_announced() -> None:
    slots, announced = Slots(1), []
    slots.on_give_back(lambda: announced.append(slots.take()))
    slots.take()

    slots.give_back()

    assert announced == [True]


# --- prefetched turns


@pytest.mark.parametrize(
    ("ends", "ran_seconds", "ahead"),
    [(9, 0.2, 0), (10, 0.2, 1), (19, 0.2, 1), (200, 0.2, 20), (10_000, 0.2, 64), (64, QUICK_SECONDS + 0.1, 0)],
    ids=["few", "ten", "not yet twenty", "many", "more than slots", "slow handlers"],
)
def test_a_tenth_of_the_quick_handlers_of_the_last_second_is_prefetched(
    clock: Clock, ends: int, ran_seconds: float, ahead: int
) -> None:
    slots = Slots(64)

    end(slots, ends, ran_seconds)

    assert slots.ahead() == ahead


def test_nothing_is_prefetched_for_a_while_after_a_deferral(clock: Clock) -> None:
    slots = Slots(64)
    end(slots, 200)

    slots.turn_away()
    assert slots.ahead() == 0
    clock.now += PACE_SECONDS + 0.1
    end(slots, 200)

    assert slots.ahead() == 20


def test_handlers_that_ended_more_than_a_second_ago_do_not_count(clock: Clock) -> None:
    slots = Slots(64)

    end(slots, 100)
    clock.now += 0.6
    end(slots, 50)
    assert slots.ahead() == 15
    clock.now += 0.6
    assert slots.ahead() == 5
    clock.now += 0.6
    assert slots.ahead() == 0
