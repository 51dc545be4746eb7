"""The virtual time of the fake store, in whole microseconds, and what it is to the driver and in evidence."""

from datetime import timedelta

from tests.support.fakes.store_rows import Instant

SECOND = 1_000_000
MICROSECOND = timedelta(microseconds=1)


def seconds(instant: Instant | None) -> float | None:
    """As evidence has it: virtual seconds."""
    return None if instant is None else instant / SECOND


def interval(length_seconds: float) -> Instant:
    """`make_interval(secs => ...)`."""
    return round(length_seconds * SECOND)
