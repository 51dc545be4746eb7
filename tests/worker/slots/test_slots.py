"""Slots: as many handlers at a time as there are, first come, first served; and what is taken in ahead of them."""

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


def test_there_are_as_many_as_it_was_made_with() -> None:
    slots = Slots(2)

    assert [slots.take() for _ in range(3)] == [True, True, False]
    slots.give_back()
    assert [slots.take() for _ in range(2)] == [True, False]


async def test_a_slot_that_is_given_back_is_the_first_ones_in_the_line() -> None:
    slots = Slots(1)
    slots.take()
    first, second = slots.stand_in_line(), slots.stand_in_line()

    slots.give_back()

    assert (first.done(), second.done()) == (True, False)
    assert not slots.take()


async def test_who_has_left_the_line_is_passed_over() -> None:
    slots = Slots(1)
    slots.take()
    first, second = slots.stand_in_line(), slots.stand_in_line()

    assert not slots.leave(first)
    slots.give_back()

    assert second.done()
    assert slots.leave(second)


async def test_a_slot_that_nobody_waits_for_any_longer_is_free() -> None:
    slots = Slots(1)
    slots.take()
    slots.leave(slots.stand_in_line())

    slots.give_back()

    assert slots.take()


async def test_who_leaves_when_his_slot_has_come_has_it() -> None:
    slots = Slots(1)
    slots.take()
    place = slots.stand_in_line()
    slots.give_back()

    assert slots.leave(place)
    assert not slots.take()


def test_whoever_waits_for_room_is_told_when_a_handler_has_ended() -> None:
    slots, told = Slots(1), []
    slots.tell(lambda: told.append(slots.take()))
    slots.take()

    slots.give_back()

    assert told == [True]


# --- what is taken in ahead


@pytest.mark.parametrize(("ends", "ahead"), [(0, 0), (9, 0), (10, 1), (19, 1), (200, 20)])
def test_it_is_a_tenth_of_what_has_ended_within_a_second(clock: Clock, ends: int, ahead: int) -> None:
    slots = Slots(100)

    end(slots, ends)

    assert slots.ahead() == ahead


@pytest.mark.parametrize(("count", "most"), [(1, 1), (64, 64)])
def test_it_is_as_many_as_there_are_slots_at_most(clock: Clock, count: int, most: int) -> None:
    slots = Slots(count)

    end(slots, 10_000)

    assert slots.ahead() == most


def test_nothing_is_taken_in_ahead_of_handlers_that_take_their_time_though_they_end_together(clock: Clock) -> None:
    slots = Slots(64)

    end(slots, 64, ran_seconds=QUICK_SECONDS + 0.1)

    assert slots.ahead() == 0


def test_a_slot_whose_turn_keeps_its_place_in_hand_makes_no_room(clock: Clock) -> None:
    slots = Slots(64)

    for _ in range(64):
        slots.take()
        slots.give_back()

    assert slots.ahead() == 0


def test_for_a_while_after_a_session_was_put_off_nothing_is_taken_in_ahead(clock: Clock) -> None:
    slots = Slots(64)
    end(slots, 200)

    slots.turn_away()
    assert slots.ahead() == 0
    clock.now += PACE_SECONDS + 0.1
    end(slots, 200)

    assert slots.ahead() == 20


def test_ends_are_forgotten_also_while_sessions_are_put_off_for_long(clock: Clock) -> None:
    slots = Slots(64)
    for _ in range(10):
        end(slots, 100)
        slots.turn_away()
        clock.now += 0.9
        slots.ahead()

    assert len(slots._ends) <= 200


def test_what_has_ended_longer_ago_than_a_second_does_not_count(clock: Clock) -> None:
    slots = Slots(64)

    end(slots, 100)
    clock.now += 0.6
    end(slots, 50)
    assert slots.ahead() == 15
    clock.now += 0.6
    assert slots.ahead() == 5
    clock.now += 0.6
    assert slots.ahead() == 0
