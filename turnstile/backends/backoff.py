"""How long to wait before trying again. Pure: randomness is an argument."""

DEFAULT_BASE_SECONDS = 1.0
DEFAULT_CAP_SECONDS = 120.0
"""Two minutes: a waiting retry holds up its whole session, so long waits belong to `Snooze`, not to backoff."""


def ceiling(attempt: int, base_seconds: float, cap_seconds: float) -> float:
    """The longest wait after failed attempt number `attempt` (from 1): doubling, capped."""
    if attempt < 1:
        raise ValueError(f"attempts count from 1, got {attempt}")
    # 2**attempt of a row gone wild must not overflow a float before the cap is applied.
    return min(cap_seconds, base_seconds * 2.0 ** min(attempt - 1, 64))


def full_jitter(
    attempt: int,
    fraction: float,
    base_seconds: float = DEFAULT_BASE_SECONDS,
    cap_seconds: float = DEFAULT_CAP_SECONDS,
) -> float:
    """Seconds to wait: `fraction` (0 to 1, drawn by the caller) of the ceiling.

    Full jitter spreads a herd that failed together over the whole interval (G10; the AWS Architecture Blog's
    "exponential backoff and jitter").
    """
    return fraction * ceiling(attempt, base_seconds, cap_seconds)
