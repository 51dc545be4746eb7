"""Chooses from which queues a relay takes rows, and how many. Pure: time and chance are arguments.

A relay takes only what it can send. After a failed send, it leaves the queue to other relays for a while. Then it tries a few of
the queue's rows, and after a success the usual number. A DLQ is a line of its own: a missing DLQ delays no wake-up.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

BATCH = 1000
"""Rows taken of one line at a time."""
PROBE = 10
"""Rows with which a failed line is tried again: as many as one SQS call takes."""
FIRST_PAUSE_SECONDS = 2.0
FULL_SCAN_EVERY_SECONDS = 60.0
EVER_SECONDS = 1e9


class Line(NamedTuple):
    """The wake-ups of a queue, or its dead letters."""

    queue: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Asks for up to `limit` rows of one line that have been due for `reach_seconds` at most."""

    line: Line
    limit: int
    reach_seconds: float


@dataclass(slots=True)
class _Known:
    failures: int = 0
    begins_at: float = -math.inf
    full_scan_at: float = -math.inf


class RelayQueues:
    """What one process knows about the declared queues. `now` is monotonic seconds, `chance` from 0 to 1."""

    def __init__(self, names: Iterable[str], longest_pause_seconds: float) -> None:
        self._known = {Line(name, dead): _Known() for name in names for dead in (False, True)}
        self._longest_pause = longest_pause_seconds

    def choose(self, now: float, busy: Collection[Line], paused: Collection[str] = ()) -> list[Ask]:
        """What to take now: nothing of a line that is still being sent or is left to other relays, and no wake-ups of a paused
        queue."""
        return [
            Ask(line, PROBE if known.failures else BATCH, _reach(known, now))
            for line, known in self._known.items()
            if line not in busy and now >= known.begins_at and (line.dead or line.queue not in paused)
        ]

    def taken(self, ask: Ask, many: int, now: float) -> None:
        """Records how many rows were found."""
        if ask.reach_seconds == EVER_SECONDS and many < ask.limit:
            # Only now are all old rows known to be taken. Until then each take scans all ages, so a backlog drains at full speed.
            self._known[ask.line].full_scan_at = now

    def sent(self, line: Line) -> None:
        """Records a successful send."""
        self._known[line].failures = 0

    def failed(self, line: Line, now: float, chance: float) -> None:
        """Records a failed send. The pause doubles, and half of it is random: relays that failed together return one by one."""
        known = self._known[line]
        known.failures += 1
        longest = min(self._longest_pause, FIRST_PAUSE_SECONDS * 2 ** min(known.failures - 1, 10))
        known.begins_at = now + longest * (1 + chance) / 2
        # Rows that were given back keep their age, so the next take must reach back to the oldest.
        known.full_scan_at = -math.inf


def _reach(known: _Known, now: float) -> float:
    full = now - known.full_scan_at > FULL_SCAN_EVERY_SECONDS
    return EVER_SECONDS if full else 2 * FULL_SCAN_EVERY_SECONDS


def tick_seconds(usual: float, chance: float) -> float:
    """Seconds until the next round. Random, so that relays that started together do not stay in step."""
    return usual * (0.75 + chance / 2)
