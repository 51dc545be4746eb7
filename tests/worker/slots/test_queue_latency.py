"""How long turns wait at present: one long wait is no trend, and an old one says nothing."""

import pytest

from turnstile.worker.slots.queue_latency import FORGET_SECONDS, WEIGHT, QueueLatency

NOW = 1_000_000.0


def test_a_queue_of_which_nothing_is_known_has_no_dwell() -> None:
    assert QueueLatency().seconds(NOW) == 0.0


def test_a_single_long_wait_counts_for_a_tenth() -> None:
    queue_latency = QueueLatency()

    queue_latency.note(100.0, NOW)

    assert queue_latency.seconds(NOW) == pytest.approx(100.0 * WEIGHT)


def test_waits_that_last_are_believed_in_the_end() -> None:
    queue_latency = QueueLatency()

    estimates = []
    for number in range(100):
        queue_latency.note(100.0, NOW + number)
        estimates.append(queue_latency.seconds(NOW + number))

    assert estimates == sorted(estimates)
    assert estimates[-1] == pytest.approx(100.0, rel=0.01)


def test_the_estimate_falls_when_turns_wait_no_more() -> None:
    queue_latency = QueueLatency()
    queue_latency.note(100.0, NOW)

    for _ in range(50):
        queue_latency.note(0.0, NOW)

    assert queue_latency.seconds(NOW) < 0.1


def test_a_wait_below_zero_is_none() -> None:
    """Clocks differ, and a turn may be claimed a moment before its own time."""
    queue_latency = QueueLatency()

    queue_latency.note(-100.0, NOW)

    assert queue_latency.seconds(NOW) == 0.0


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    queue_latency = QueueLatency()
    queue_latency.note(100.0, NOW)

    assert FORGET_SECONDS == 60.0
    assert queue_latency.seconds(NOW + 59.9) == pytest.approx(100.0 * WEIGHT)
    assert queue_latency.seconds(NOW + 60.0) == 0.0


def test_what_was_forgotten_does_not_come_back_with_the_next_turn() -> None:
    queue_latency = QueueLatency()
    queue_latency.note(10_000.0, NOW)

    queue_latency.note(1.0, NOW + 61.0)

    assert queue_latency.seconds(NOW + 61.0) == pytest.approx(WEIGHT)
