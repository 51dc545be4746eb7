"""A circuit breaker: after failures it blocks calls for a pause, then allows one at a time. Pure: time is an argument."""

from dataclasses import dataclass


@dataclass(slots=True)
class Circuit:
    """Opens after `threshold` failures in a row, then allows one probe per pause. The pause doubles with each probe."""

    threshold: int = 1
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 5.0
    _failures: int = 0
    _pause: float = 0.0
    _probe_at: float = 0.0

    @property
    def is_open(self) -> bool:
        return self._failures >= self.threshold

    def allows(self, now: float) -> bool:
        """Whether to make a call at `now` (monotonic seconds). True while open uses up the probe of this pause."""
        if not self.is_open:
            return True
        if now < self._probe_at:
            return False
        self._pause = min(self.longest_pause_seconds, 2 * self._pause)
        self._probe_at = now + self._pause
        return True

    def succeeded(self) -> None:
        self._failures = 0

    def failed(self, now: float) -> None:
        """Records a call that got no response in time, at `now` (monotonic seconds)."""
        was_open = self.is_open
        self._failures += 1
        if self.is_open and not was_open:
            # Only the first failure of several concurrent calls starts the pause: they are one outage.
            self._pause = min(self.longest_pause_seconds, self.first_pause_seconds)
            self._probe_at = now + self._pause
