"""The share of the limits that one worker keeps by itself while Redis is away. Pure: the time is an argument.

Each worker takes an equal part of the places and of the rate, and at least one place. So with more workers than places, more
turns may run than the limit says.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.limits.rules import Want

Key = tuple[str, str]
"""The name of a limit, and a value of its key."""

MOST_KEYS = 10_000
"""Buckets that are remembered. A full bucket says nothing, so forgetting all gives each key at most one burst."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class LocalShare:
    """What the turns of this worker use of each limit. `workers`: how many are alive."""

    def __init__(self) -> None:
        self.workers = 1
        self._used: Counter[Key] = Counter()
        self._buckets: dict[Key, _Bucket] = {}

    def take(self, wants: Sequence[Want], now: float) -> Want | None:
        """Takes the tokens, and says which limit refuses the turn; None: the caller may `enter` it. `now` is monotonic."""
        if (refusing := next((want for want in wants if not self._has_room(want, now)), None)) is not None:
            return refusing
        for want in wants:
            if want.tokens:
                self._bucket(want, now).tokens -= 1
        return None

    def enter(self, wants: Sequence[Want]) -> None:
        """Counts a turn, whoever let it begin."""
        for want in wants:
            if want.places:
                self._used[want.limit, want.value] += want.places

    def leave(self, wants: Sequence[Want]) -> None:
        for want in wants:
            if want.places:
                self._used[_key(want)] -= want.places
                if self._used[_key(want)] <= 0:
                    del self._used[_key(want)]

    def _has_room(self, want: Want, now: float) -> bool:
        most = want.amounts.concurrency
        if most is not None:
            share = max(1, most // self.workers)
            if self._used[_key(want)] + min(want.places, share) > share:
                return False
        return not want.tokens or self._bucket(want, now).tokens >= 1

    def _bucket(self, want: Want, now: float) -> _Bucket:
        """In turns, not in tokens: a turn of weight 2 fills it half as fast."""
        if len(self._buckets) >= MOST_KEYS:
            self._buckets.clear()
        weight = max(1, want.tokens)
        most = max(1.0, want.amounts.tokens / weight / self.workers)
        bucket = self._buckets.setdefault(_key(want), _Bucket(most, now))
        refilled = (now - bucket.at) * (want.amounts.rate or 0.0) / weight / self.workers
        bucket.tokens, bucket.at = min(most, bucket.tokens + refilled), now
        return bucket


def _key(want: Want) -> Key:
    return want.limit, want.value
