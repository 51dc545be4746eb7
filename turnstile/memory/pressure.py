"""The fill level of the memory's Redis, with hysteresis so that it does not flap near a threshold (H6). Pure."""

from turnstile.memory.kinds import Pressure

HIGH_FROM, CRITICAL_FROM = 0.80, 0.90
SLACK = 0.05
"""A level ends only when the used ratio has fallen this far below its threshold."""

_THRESHOLDS = {Pressure.HIGH: HIGH_FROM, Pressure.CRITICAL: CRITICAL_FROM}


def judge(before: Pressure, used_ratio: float | None) -> Pressure:
    """The level now. `used_ratio` is used memory divided by maxmemory; None if Redis has no limit."""
    if used_ratio is None:
        return Pressure.NONE
    reached = max((level for level, threshold in _THRESHOLDS.items() if used_ratio >= threshold), default=Pressure.NONE)
    kept = max(
        (level for level, threshold in _THRESHOLDS.items() if level <= before and used_ratio >= threshold - SLACK),
        default=Pressure.NONE,
    )
    return max(reached, kept)
