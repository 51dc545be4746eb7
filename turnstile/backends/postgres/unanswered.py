"""How long a process has had no answer from its database. Pure: times are arguments, in monotonic seconds."""

import math

RECENT_SECONDS = 10.0
"""How long a failed call counts as still waiting: its caller pauses for less before it asks again."""


class Unanswered:
    """One thread writes it, others may read it. A refusal of the server is an answer, too."""

    def __init__(self) -> None:
        self._asking = 0
        self._since = 0.0
        self._failed_at = -math.inf

    def asked(self, now: float) -> None:
        """A call begins; `ended` must follow."""
        if not self._is_waiting(now):
            self._since = now
        self._asking += 1

    def answered(self, now: float) -> None:
        self._since = now
        self._failed_at = -math.inf

    def failed(self, now: float) -> None:
        """A call has got no connection, or no answer on it."""
        self._failed_at = now

    def ended(self) -> None:
        self._asking -= 1

    def seconds(self, now: float) -> float:
        """Since the last answer, or since the first call after it; 0 while nobody waits for one."""
        return now - self._since if self._is_waiting(now) else 0.0

    def _is_waiting(self, now: float) -> bool:
        return self._asking > 0 or now - self._failed_at < RECENT_SECONDS
