"""A circuit breaker: after failures, calls are not even tried for a while, then one at a time. Pure: time is an argument."""

from dataclasses import dataclass


@dataclass(slots=True)
class Circuit:
    """Opens after `threshold` failures in a row; then lets one probe through per pause, which doubles while they fail."""

    threshold: int = 1
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 5.0
    _failures: int = 0
    _pause: float = 0.0
    _probe_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are being held back."""
        return self._failures >= self.threshold

    def allows(self, now: float) -> bool:
        """Whether to make a call now (monotonic seconds). Asking takes the one probe of the pause."""
        if not self.is_open:
            return True
        if now < self._probe_at:
            return False
        self._pause = min(self.longest_pause_seconds, 2 * self._pause)
        self._probe_at = now + self._pause
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self._failures = 0

    def failed(self, now: float) -> None:
        """A call was not answered, or too late."""
        was_open = self.is_open
        self._failures += 1
        if self.is_open and not was_open:
            # Only the first of several calls that were under way together: the pause is for the outage, not for each
            # of its victims.
            self._pause = min(self.longest_pause_seconds, self.first_pause_seconds)
            self._probe_at = now + self._pause
