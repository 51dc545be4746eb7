"""The slots of a worker: how many handlers run at a time, and how many turns are prefetched before a slot is free.

A turn is received, locked and claimed before its handler begins, and settled after the handler has ended. With handlers of 200
ms, a slot that is empty meanwhile would be idle for a fifth of the time. So only the handler takes a slot, and turns are
prefetched: as many as handlers will have ended by the time that the turns are claimed, if the pace stays the same (ADR 0006).
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

AHEAD_SECONDS = 0.1
"""The approximate time from the end of one handler to the start of the next, under load."""
PACE_SECONDS = 1.0
"""The period over which the pace is measured. If fewer than one handler ends in AHEAD_SECONDS, nothing is prefetched."""
QUICK_SECONDS = 3.0
"""A handler that took longer does not count for the pace. Slow handlers that began together end together, and then none ends for
long: prefetched turns would wait for as long in a full worker, while another worker may be idle."""


class Slots:
    """`count` slots, first in, first out. Not thread-safe."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._line: deque[asyncio.Future[None]] = deque()
        self._ends: deque[float] = deque()
        self._given_back: Callable[[], None] = lambda: None
        self._turned_away_at = -math.inf

    @property
    def busy(self) -> int:
        """Slots that are taken. For any thread."""
        return self.count - self._free

    def ahead(self) -> int:
        """How many turns may be prefetched now: at most `count`."""
        now = time.monotonic()
        while self._ends and self._ends[0] < now - PACE_SECONDS:
            self._ends.popleft()
        if now - self._turned_away_at < PACE_SECONDS:
            return 0
        return min(self.count, int(len(self._ends) * AHEAD_SECONDS / PACE_SECONDS))

    def on_give_back(self, call: Callable[[], None]) -> None:
        self._given_back = call

    def turn_away(self) -> None:
        """Stops prefetching for PACE_SECONDS, because a session was deferred: its tenant has its share, and the worker would
        receive and defer further sessions as fast as it polls."""
        self._turned_away_at = time.monotonic()

    def take(self) -> bool:
        """Takes a slot, if one is free. The caller must give it back."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def stand_in_line(self) -> asyncio.Future[None]:
        """A place in the line, done when the caller has a slot. A caller that stops waiting must `leave` it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        return place

    def leave(self, place: asyncio.Future[None]) -> bool:
        """Gives up a place in the line. True if the caller had got a slot already: it keeps the slot."""
        return not place.cancel()

    def give_back(self, ran_seconds: float = math.inf) -> None:
        """Passes the slot to the next in the line. `ran_seconds`: how long the handler ran, if its end makes room for another
        turn, so that it counts for the pace."""
        if ran_seconds <= QUICK_SECONDS:
            self._ends.append(time.monotonic())
        self._free += 1
        while self._line and self._free:
            place = self._line.popleft()
            if not place.done():
                self._free -= 1
                place.set_result(None)
        self._given_back()
