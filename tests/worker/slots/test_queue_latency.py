"""How long turns wait at present: one long wait is no trend, and an old one says nothing."""

import pytest

from turnstile.worker.slots.queue_latency import FORGET_SECONDS, WEIGHT, Dwell

NOW = 1_000_000.0


def test_a_queue_of_which_nothing_is_known_has_no_dwell() -> None:
    assert Dwell().seconds(NOW) == 0.0


def test_a_single_long_wait_counts_for_a_tenth() -> None:
    dwell = Dwell()

    dwell.note(100.0, NOW)

    assert dwell.seconds(NOW) == pytest.approx(100.0 * WEIGHT)


def test_waits_that_last_are_believed_in_the_end() -> None:
    dwell = Dwell()

    estimates = []
    for number in range(100):
        dwell.note(100.0, NOW + number)
        estimates.append(dwell.seconds(NOW + number))

    assert estimates == sorted(estimates)
    assert estimates[-1] == pytest.approx(100.0, rel=0.01)


def test_the_estimate_falls_when_turns_wait_no_more() -> None:
    dwell = Dwell()
    dwell.note(100.0, NOW)

    for _ in range(50):
        dwell.note(0.0, NOW)

    assert dwell.seconds(NOW) < 0.1


def test_a_wait_below_zero_is_none() -> None:
    """Clocks differ, and a turn may be claimed a moment before its own time."""
    dwell = Dwell()

    dwell.note(-100.0, NOW)

    assert dwell.seconds(NOW) == 0.0


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    dwell = Dwell()
    dwell.note(100.0, NOW)

    assert FORGET_SECONDS == 60.0
    assert dwell.seconds(NOW + 59.9) == pytest.approx(100.0 * WEIGHT)
    assert dwell.seconds(NOW + 60.0) == 0.0


def test_what_was_forgotten_does_not_come_back_with_the_next_turn() -> None:
    dwell = Dwell()
    dwell.note(10_000.0, NOW)

    dwell.note(1.0, NOW + 61.0)

    assert dwell.seconds(NOW + 61.0) == pytest.approx(WEIGHT)
