"""The estimate of the queue latency: one long wait changes it little, and an old one not at all."""

import pytest

from turnstile.worker.slots.queue_latency import WEIGHT, QueueLatency

NOW = 1_000_000.0


def test_the_estimate_follows_lasting_waits() -> None:
    queue_latency = QueueLatency()

    estimates = []
    for number in range(100):
        queue_latency.note(100.0, NOW + number)
        estimates.append(queue_latency.seconds(NOW + number))

    assert estimates == sorted(estimates)
    assert estimates[-1] == pytest.approx(100.0, rel=0.01)


def test_a_single_long_wait_counts_for_a_tenth_and_for_a_minute() -> None:
    queue_latency = QueueLatency()

    queue_latency.note(100.0, NOW)

    assert queue_latency.seconds(NOW) == queue_latency.seconds(NOW + 59.9) == pytest.approx(100.0 * WEIGHT)
    assert queue_latency.seconds(NOW + 60.0) == 0.0
    queue_latency.note(1.0, NOW + 61.0)
    assert queue_latency.seconds(NOW + 61.0) == pytest.approx(WEIGHT)


def test_a_negative_wait_counts_as_0() -> None:
    """Clocks differ, and a turn may be claimed a moment before its own time."""
    queue_latency = QueueLatency()

    queue_latency.note(-100.0, NOW)

    assert queue_latency.seconds(NOW) == 0.0


def test_what_comes_from_the_queue_grows_older_until_a_turn_comes() -> None:
    queue_latency = QueueLatency()

    assert queue_latency.behind(NOW) is None
    for _ in range(200):
        queue_latency.note(100.0, NOW)
    assert queue_latency.behind(NOW + 30.0) == pytest.approx(130.0)
    assert queue_latency.behind(NOW + 60.0) is None
