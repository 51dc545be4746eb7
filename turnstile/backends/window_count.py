"""A rate limit: so many requests in a window of time. Pure: time is an argument."""

from collections import Counter
from dataclasses import dataclass, field

MOST_COUNTED = 100_000
"""Most callers that one process counts by itself for one window. Beyond that, further callers pass: some ten megabytes."""

Counted = tuple[str, ...]
"""Whose requests are counted together, such as a tenant and its session."""


@dataclass(frozen=True, slots=True)
class Window:
    """Most `limit` requests of a caller in `seconds`."""

    name: str
    limit: int
    seconds: int
    sliding: bool


@dataclass(frozen=True, slots=True)
class Count:
    """What counting one request has shown."""

    allowed: bool
    remaining: int
    """Requests that are left in the window."""
    free_in_seconds: int
    """When there will be more, rounded up."""


@dataclass(slots=True)
class LocalCounts:
    """Counts in this process alone, in fixed windows that begin for all callers at once."""

    _begun: dict[Window, int] = field(default_factory=dict)
    _counts: dict[Window, Counter[Counted]] = field(default_factory=dict)

    def spend(self, window: Window, caller: Counted, now: float) -> Count:
        """Counts one request at `now` (seconds of any clock)."""
        begun = int(now // window.seconds)
        if self._begun.get(window) != begun:
            self._begun[window] = begun
            self._counts[window] = Counter()
        counts = self._counts[window]
        if caller in counts or len(counts) < MOST_COUNTED:
            counts[caller] += 1
        spent = counts[caller]
        left = (begun + 1) * window.seconds - now
        return Count(spent <= window.limit, max(0, window.limit - spent), max(1, -int(-left // 1)))
