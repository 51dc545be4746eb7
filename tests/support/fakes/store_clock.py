"""The virtual time of the fake store, in whole microseconds, and what it is to the driver and in evidence."""

from datetime import timedelta

from tests.support.fakes.store_rows import Instant

SECOND = 1_000_000
MICROSECOND = timedelta(microseconds=1)


def seconds(instant: Instant | None) -> float | None:
    return None if instant is None else instant / SECOND


def interval(length_seconds: float) -> Instant:
    return round(length_seconds * SECOND)
