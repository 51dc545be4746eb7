"""Exponential backoff with jitter. Pure: randomness is an argument."""


def ceiling(attempt: int, base_seconds: float, cap_seconds: float) -> float:
    """The longest wait after failed attempt number `attempt` (from 1), in seconds. It doubles per attempt up to the cap."""
    if attempt < 1:
        raise ValueError(f"attempts count from 1, got {attempt}")
    # A corrupt, huge attempt number must not overflow the float before the cap applies.
    return min(cap_seconds, base_seconds * 2.0 ** min(attempt - 1, 64))


def full_jitter(attempt: int, fraction: float, base_seconds: float, cap_seconds: float) -> float:
    """Seconds to wait: `fraction` (0 to 1, random, from the caller) of the ceiling.

    Full jitter spreads calls that failed together over the whole interval (the AWS Architecture Blog's
    "exponential backoff and jitter").
    """
    return fraction * ceiling(attempt, base_seconds, cap_seconds)
