"""The watchdog: a process whose event loop is stuck says why, and exits, so that its leases run out and others go on."""

import asyncio
import os
import sys
import threading
import time
import traceback

import structlog

EXIT_STUCK = 70
"""EX_SOFTWARE of sysexits.h."""

log = structlog.get_logger("turnstile.watchdog")


class Watchdog:
    """Looks at the loop whenever the heartbeat's thread calls `look`, at least twice in `limit_seconds`.

    Make it on the loop's own thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_seconds: float) -> None:
        self._loop = loop
        self._limit_seconds = limit_seconds
        self._turned_at = self._looked_at = time.monotonic()
        self._loop_thread = threading.get_ident()

    def stuck_for(self) -> float:
        """Seconds since the loop last turned, as far as the last looks could tell."""
        return time.monotonic() - self._turned_at

    def look(self) -> None:
        """Ends the process if the loop has not turned for longer than the limit while somebody could look at it."""
        now = time.monotonic()
        # A look this late says that the whole process stood still: stopped by a signal, a host that was moved, a Lambda frozen
        # between two invocations. The loop could turn no more than this thread could look, and everything it holds would be
        # lost with it for nothing.
        stood_still = max(0.0, now - self._looked_at - self._limit_seconds / 2)
        self._turned_at = min(now, self._turned_at + stood_still)
        self._looked_at = now
        stuck = now - self._turned_at
        if stuck > self._limit_seconds:
            frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the documented way to another stack
            where = "".join(traceback.format_stack(frame)) if frame else ""
            log.critical("watchdog.loop_stuck", seconds=round(stuck, 1), stack=where)
            os._exit(EXIT_STUCK)
        self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self._turned_at = time.monotonic()
