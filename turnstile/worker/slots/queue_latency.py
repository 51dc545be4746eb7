"""How long turns wait in the queue now, as this worker sees it. Pure: the time is an argument."""

from dataclasses import dataclass

WEIGHT = 0.1
FORGET_SECONDS = 60.0


@dataclass(slots=True)
class QueueLatency:
    """A smoothed waiting time. It is 0 when no turn has come from the queue for FORGET_SECONDS."""

    _seconds: float = 0.0
    _noted_at: float = 0.0

    def note(self, seconds: float, now: float) -> None:
        """Adds a turn that had waited `seconds` when it was claimed at `now` (monotonic)."""
        self._seconds = self.seconds(now) + WEIGHT * (max(0.0, seconds) - self.seconds(now))
        self._noted_at = now

    def behind(self, now: float) -> float | None:
        """How long ago the turns that come from the queue now were submitted. It grows until one comes. None: nobody knows."""
        age = now - self._noted_at
        return self._seconds + age if self._noted_at and age < FORGET_SECONDS else None

    def seconds(self, now: float) -> float:
        return self._seconds if now - self._noted_at < FORGET_SECONDS else 0.0
