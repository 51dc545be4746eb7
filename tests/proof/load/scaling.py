"""When a worker is added and when one is taken away: by the backlog, as the fleet's policy does it (ADR 0034). Pure.

It tracks `ready` + `running` per worker. More workers are wanted at once, fewer only after a while of nothing else: what came
in a burst may come again.
"""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Scaling:
    """Between `least` and `most` workers, of which each is to have `per_worker` turns in hand or before it."""

    least: int
    most: int
    per_worker: float
    calm_seconds: float
    _fewer_since: float | None = None

    def want(self, workers: int, in_hand: int, now: float) -> int:
        """How many there should be at `now` (seconds of any clock), if there are `workers` with so many turns in hand."""
        enough = min(self.most, max(self.least, -int(-in_hand // self.per_worker)))
        if enough >= workers:
            self._fewer_since = None
            return enough
        if self._fewer_since is None:
            self._fewer_since = now
        if now - self._fewer_since < self.calm_seconds:
            return workers
        # One at a time, and then it is looked at anew.
        self._fewer_since = None
        return workers - 1
