"""Which queues a relay takes rows of, and how many. Pure: time and chance are arguments.

A relay takes only what it can send. A queue to which a send has just failed is left to other relays for a while; then a few of
its rows are tried, and when they go through, as many as ever. A DLQ is a line of its own: a missing one holds up no wake-up.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

BATCH = 1000
"""Rows of one line at a time."""
PROBE = 10
"""As many as one SQS call takes: what a line that has failed is tried with."""
FIRST_PAUSE_SECONDS = 2.0
FULL_SCAN_EVERY_SECONDS = 60.0
EVER_SECONDS = 1e9


class Line(NamedTuple):
    """The wake-ups of a queue, or its dead letters."""

    queue: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Ask:
    """Up to `limit` rows of one line, due for `reach_seconds` at most."""

    line: Line
    limit: int
    reach_seconds: float


@dataclass(slots=True)
class _Known:
    failures: int = 0
    begins_at: float = -math.inf
    full_scan_at: float = -math.inf


class RelayQueues:
    """The declared queues as one process has met them. `now` is monotonic seconds, `chance` from 0 to 1."""

    def __init__(self, names: Iterable[str], longest_pause_seconds: float) -> None:
        self._known = {Line(name, dead): _Known() for name in names for dead in (False, True)}
        self._longest_pause = longest_pause_seconds

    def choose(self, now: float, busy: Collection[Line]) -> list[Ask]:
        """What to take now: nothing of a line that is still being sent, or is left to others."""
        return [
            Ask(line, PROBE if known.failures else BATCH, _reach(known, now))
            for line, known in self._known.items()
            if line not in busy and now >= known.begins_at
        ]

    def taken(self, ask: Ask, many: int, now: float) -> None:
        """So many rows were there."""
        if ask.reach_seconds == EVER_SECONDS and many < ask.limit:
            # Only now is the old end known to be empty; a backlog there is worked off at full speed.
            self._known[ask.line].full_scan_at = now

    def sent(self, line: Line) -> None:
        """A send has gone through."""
        self._known[line].failures = 0

    def failed(self, line: Line, now: float, chance: float) -> None:
        """A send has failed. The pause doubles, and half of it is chance: relays that failed together come back one by one."""
        known = self._known[line]
        known.failures += 1
        longest = min(self._longest_pause, FIRST_PAUSE_SECONDS * 2 ** min(known.failures - 1, 10))
        known.begins_at = now + longest * (1 + chance) / 2
        # What was given back is as old as it was.
        known.full_scan_at = -math.inf


def _reach(known: _Known, now: float) -> float:
    full = now - known.full_scan_at > FULL_SCAN_EVERY_SECONDS
    return EVER_SECONDS if full else 2 * FULL_SCAN_EVERY_SECONDS


def tick_seconds(usual: float, chance: float) -> float:
    """Until the next round: relays that were started together must not look together for ever."""
    return usual * (0.75 + chance / 2)
