"""How long anything may take that somebody asks for. Pure; a handler's module imports it, so it imports nothing."""

MAX_SECONDS = 14 * 86_400
"""SQS keeps a message for 14 days at most; nothing about a turn is meant to last longer."""


def check_seconds(name: str, seconds: float) -> float:
    """What a timer can be set to and a date can bear. Raises ValueError, also for what is no finite number."""
    # Written so that nan, which is neither more nor less than anything, is refused too.
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"{name} must be more than 0 and at most {MAX_SECONDS:,} seconds, got {seconds!r}")
    return seconds
