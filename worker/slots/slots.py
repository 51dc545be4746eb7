"""The slots of a worker: how many handlers run at a time, and how many turns it takes in before one is free.

A turn is received, locked and claimed before its handler can begin, and settled after that has ended. A slot that stood empty for
so long would be idle for a fifth of the time of handlers that take 200 ms. So the handler alone takes a slot, and turns are taken
in ahead: as many as handlers will have ended by the time that they are claimed, if the pace stays as it is (ADR 0050).
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

AHEAD_SECONDS = 0.1
"""About what it takes from the end of one handler to the begin of the next, under load."""
PACE_SECONDS = 1.0
"""What the pace is taken from. Ends that are rarer than one in AHEAD_SECONDS are none: nothing is taken in ahead of them."""
QUICK_SECONDS = 3.0
"""A handler that took longer says nothing of the pace. Slow ones that began together end together, and then none for long; what
was taken in ahead of the next would wait for as long in a full worker, while another may be idle."""


class Slots:
    """As many as `count`. First come, first served; not for several threads."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._line: deque[asyncio.Future[None]] = deque()
        self._ends: deque[float] = deque()
        self._told: Callable[[], None] = lambda: None
        self._turned_away_at = -math.inf

    def ahead(self) -> int:
        """How many more turns than there are slots may be in hand: as many again at most."""
        now = time.monotonic()
        while self._ends and self._ends[0] < now - PACE_SECONDS:
            self._ends.popleft()
        if now - self._turned_away_at < PACE_SECONDS:
            return 0
        return min(self.count, int(len(self._ends) * AHEAD_SECONDS / PACE_SECONDS))

    def tell(self, told: Callable[[], None]) -> None:
        """Calls `told` whenever a slot was given back."""
        self._told = told

    def turn_away(self) -> None:
        """A session was put off: its tenant has its share, and what came ahead would be put off as well, at the poll's speed."""
        self._turned_away_at = time.monotonic()

    def take(self) -> bool:
        """Takes a slot, if one is free. To be given back."""
        if not self._free:
            return False
        self._free -= 1
        return True

    def stand_in_line(self) -> asyncio.Future[None]:
        """A place in the line for a slot, done when the slot is taken. Who does not wait for it any longer has to `leave` it."""
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(place)
        return place

    def leave(self, place: asyncio.Future[None]) -> bool:
        """Gives up a place in the line. Whether a slot had come of it before: that is taken, then."""
        return not place.cancel()

    def give_back(self, ran_seconds: float = math.inf) -> None:
        """A slot is free: the next one's in the line. `ran_seconds` by a handler whose place in hand will be free as well."""
        if ran_seconds <= QUICK_SECONDS:
            self._ends.append(time.monotonic())
        self._free += 1
        while self._line and self._free:
            place = self._line.popleft()
            if not place.done():
                self._free -= 1
                place.set_result(None)
        self._told()
