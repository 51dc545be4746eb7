"""The growth experiment ends, whatever passes before it is looked at."""

from bench.experiments.growth import Case, enough

CASE = Case("empty", lambda room: [], skipped=500, measured=3000)


def test_all_that_are_to_be_measured_are_waited_for() -> None:
    assert enough(CASE, passed=512, filled=100_000) == 3512


def test_no_more_than_there_are_is_waited_for() -> None:
    assert enough(CASE, passed=512, filled=3500) == 3500
