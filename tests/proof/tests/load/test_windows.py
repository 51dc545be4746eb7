"""Rates, percentiles and counters over time."""

from tests.proof.load.windows import gain, growth, percentiles, rates


def test_a_rate_counts_what_lies_within_its_window() -> None:
    times = [9.9, 10.0, 10.5, 11.9, 12.0, 14.0, 99.0]

    assert rates(times, 10.0, 14.0, 2.0) == [(11.0, 1.5), (13.0, 0.5)]


def test_a_window_that_is_not_whole_at_the_end_is_left_out() -> None:
    """It would show fewer than there were."""
    assert rates([0.5, 2.2], 0.0, 2.5, 1.0) == [(0.5, 1.0), (1.5, 0.0)]


def test_percentiles_are_of_the_values_of_a_window() -> None:
    values = [(0.1 * number, float(number)) for number in range(10)] + [(2.5, 7.0)]

    assert percentiles(values, 0.5, 0.0, 3.0, 1.0) == [(0.5, 5.0), (2.5, 7.0)]
    assert percentiles(values, 0.99, 0.0, 3.0, 1.0) == [(0.5, 9.0), (2.5, 7.0)]


def test_a_counter_that_begins_anew_has_grown_by_what_it_shows() -> None:
    """A process that took another's place."""
    points = [(0.0, 10.0), (2.0, 14.0), (4.0, 1.0)]

    assert growth(points) == [(1.0, 2.0), (3.0, 0.5)]
    assert gain(points) == 5.0
    assert gain(points[:1]) == 0.0
