"""A circuit breaker: after a failure, calls are not even tried for a while. Pure: the time is an argument."""

from dataclasses import dataclass


@dataclass(slots=True)
class Circuit:
    """Closed until a failure; then open for a pause that doubles while the trials after it fail too."""

    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 5.0
    _open_until: float = 0.0
    _pause: float = 0.0

    def allows(self, now: float) -> bool:
        """Whether a call may be tried now. After each pause all callers may try at once: each try is cheap and short."""
        return now >= self._open_until

    def succeeded(self) -> None:
        """A call went well."""
        self._open_until = self._pause = 0.0

    def failed(self, now: float) -> None:
        """A call failed."""
        if now < self._open_until:
            # One of several that were under way together: the pause is for the outage, not for each of its victims.
            return
        self._pause = min(self.longest_pause_seconds, self._pause * 2 or self.first_pause_seconds)
        self._open_until = now + self._pause
