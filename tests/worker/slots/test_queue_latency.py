"""The estimate of the queue latency: one long wait changes it little, and an old one not at all."""

import pytest

from turnstile.worker.slots.queue_latency import FORGET_SECONDS, WEIGHT, QueueLatency

NOW = 1_000_000.0


def test_a_single_long_wait_counts_for_a_tenth() -> None:
    queue_latency = QueueLatency()

    queue_latency.note(100.0, NOW)

    assert queue_latency.seconds(NOW) == pytest.approx(100.0 * WEIGHT)


def test_the_estimate_follows_lasting_waits() -> None:
    queue_latency = QueueLatency()

    estimates = []
    for number in range(100):
        queue_latency.note(100.0, NOW + number)
        estimates.append(queue_latency.seconds(NOW + number))

    assert estimates == sorted(estimates)
    assert estimates[-1] == pytest.approx(100.0, rel=0.01)


def test_a_negative_wait_counts_as_0() -> None:
    """Clocks differ, and a turn may be claimed a moment before its own time."""
    queue_latency = QueueLatency()

    queue_latency.note(-100.0, NOW)

    assert queue_latency.seconds(NOW) == 0.0


def test_an_estimate_is_forgotten_after_a_minute() -> None:
    queue_latency = QueueLatency()
    queue_latency.note(100.0, NOW)

    assert FORGET_SECONDS == 60.0
    assert queue_latency.seconds(NOW + 59.9) == pytest.approx(100.0 * WEIGHT)
    assert queue_latency.seconds(NOW + 60.0) == 0.0


def test_a_forgotten_estimate_does_not_come_back() -> None:
    queue_latency = QueueLatency()
    queue_latency.note(10_000.0, NOW)

    queue_latency.note(1.0, NOW + 61.0)

    assert queue_latency.seconds(NOW + 61.0) == pytest.approx(WEIGHT)
