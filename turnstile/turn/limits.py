"""How long anything may take that somebody asks for, and how often be tried. Pure, and quick to import: handlers do."""

import math

MAX_SECONDS = 14 * 86_400
"""SQS keeps a message for 14 days at most; nothing about a turn is meant to last longer."""

MAX_ATTEMPTS = 100


def check_seconds(name: str, seconds: float) -> float:
    """What a timer can be set to and a date can bear. Raises ValueError, also for what is no finite number."""
    # Written so that nan, which is neither more nor less than anything, is refused too.
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"{name} must be more than 0 and at most {MAX_SECONDS:,} seconds, got {seconds!r}")
    return seconds


def check_attempts(many: int) -> int:
    """A count, and no other number. Raises ValueError."""
    # With nan no comparison would ever end the retries.
    if not isinstance(many, int) or isinstance(many, bool) or not 1 <= many <= MAX_ATTEMPTS:
        raise ValueError(f"max_attempts must be a whole number from 1 to {MAX_ATTEMPTS}, got {many!r}")
    return many


def check_wait(after: float) -> float:
    """The seconds. Raises ValueError or TypeError: a wait without end is beyond any expiry, but nan is beyond nothing."""
    if math.isnan(seconds := float(after)):
        raise ValueError("after must be a number of seconds, got nan")
    return seconds
