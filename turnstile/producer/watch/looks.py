"""When a watch looks again: on common ticks, so that the looks of many watches share their reads."""

import math
import time

from turnstile.streaming.event_hints import Listener

TICK_SECONDS = 0.25
GROWTH = 1.5


class Looks:
    """Schedules looks. The pause grows up to `longest_seconds` while nothing comes."""

    def __init__(self, longest_seconds: float) -> None:
        self.longest_seconds = longest_seconds
        self.start_over()

    def start_over(self) -> None:
        """Resets the pause after an event, because more may follow soon."""
        self._pause = min(TICK_SECONDS, self.longest_seconds)

    async def pause(self, listener: Listener, *, at_most: float = math.inf) -> bool:
        """Waits for the next look. Whether a hint came before the pause was over."""
        now = time.monotonic()
        tick = min(TICK_SECONDS, self.longest_seconds)
        seconds = math.ceil((now + min(self._pause, self.longest_seconds)) / tick) * tick - now
        self._pause = min(self.longest_seconds, self._pause * GROWTH)
        return await listener.wait(min(seconds, at_most))
