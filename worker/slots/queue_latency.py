"""How long turns wait in the queue at present, as this worker sees it. Pure: the time is an argument."""

from dataclasses import dataclass

WEIGHT = 0.1
FORGET_SECONDS = 60.0


@dataclass(slots=True)
class QueueLatency:
    """A smoothed waiting time. It says nothing about a queue from which nothing has come for a minute."""

    _seconds: float = 0.0
    _noted_at: float = 0.0

    def note(self, seconds: float, now: float) -> None:
        """A turn had waited `seconds` when it was claimed at `now` (monotonic)."""
        self._seconds = self.seconds(now) + WEIGHT * (max(0.0, seconds) - self.seconds(now))
        self._noted_at = now

    def seconds(self, now: float) -> float:
        """The estimate; 0 when it is too old to mean anything."""
        return self._seconds if now - self._noted_at < FORGET_SECONDS else 0.0
