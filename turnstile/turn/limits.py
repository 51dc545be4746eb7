"""Limits of requested durations and attempts. Pure, and quick to import, because handlers import it."""

import math

MAX_SECONDS = 14 * 86_400
"""Longest duration of a setting or an option, in seconds: SQS keeps a message for 14 days at most."""

MAX_ATTEMPTS = 100

MAX_HAND_BACKS = 20
"""The last of so many shutdowns in a row that stop a turn ends it. Many, because a rolling deployment may hand a long turn from
one worker that is to be replaced to the next."""


def check_seconds(name: str, seconds: float) -> float:
    """Returns `seconds` if it is in (0, MAX_SECONDS]: safe for timers and dates. Raises ValueError, also for nan and inf."""
    # Written as `not ...` so that nan, for which every comparison is false, is refused too.
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"{name} must be more than 0 and at most {MAX_SECONDS:,} seconds, got {seconds!r}")
    return seconds


def check_attempts(many: int) -> int:
    """Returns `many` if it is an int from 1 to MAX_ATTEMPTS. Raises ValueError."""
    # With nan no comparison would end the retries.
    if not isinstance(many, int) or isinstance(many, bool) or not 1 <= many <= MAX_ATTEMPTS:
        raise ValueError(f"max_attempts must be a whole number from 1 to {MAX_ATTEMPTS}, got {many!r}")
    return many


def check_wait(after: float) -> float:
    """Returns the seconds. Raises ValueError or TypeError. inf is allowed, because it exceeds any expiry; nan exceeds nothing."""
    if math.isnan(seconds := float(after)):
        raise ValueError("after must be a number of seconds, got nan")
    return seconds
