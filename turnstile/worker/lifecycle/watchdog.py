"""The watchdog: a process whose event loop is stuck logs the stacks of its threads, and exits.

Its leases expire, and other workers take over.
"""

import asyncio
import os
import sys
import threading
import time
import traceback

from turnstile.telemetry.own_log import log

EXIT_STUCK = 70
"""The exit code: EX_SOFTWARE of sysexits.h."""


class Watchdog:
    """Checks the loop whenever `look` is called: from the heartbeat's thread, at least twice in `limit_seconds`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit_seconds: float) -> None:
        self._loop = loop
        self._limit_seconds = limit_seconds
        self._turned_at = self._looked_at = time.monotonic()

    def stuck_for(self) -> float:
        """Seconds since the loop last ran, as far as the last looks show."""
        return time.monotonic() - self._turned_at

    def look(self) -> None:
        """Ends the process if the loop has not run for longer than the limit. Time in which the whole process stood still does
        not count."""
        now = time.monotonic()
        # A late look means that the whole process stood still: stopped by a signal, on a host that was moved, or as a Lambda that
        # was frozen between two invocations. The loop could not run then, no more than this thread, so it is not stuck: an exit
        # would lose all turns for nothing.
        stood_still = max(0.0, now - self._looked_at - self._limit_seconds / 2)
        self._turned_at = min(now, self._turned_at + stood_still)
        self._looked_at = now
        stuck = now - self._turned_at
        if stuck > self._limit_seconds:
            log.critical("watchdog.loop_stuck", seconds=round(stuck, 1), stacks=_stacks())
            os._exit(EXIT_STUCK)
        self._loop.call_soon_threadsafe(self._turned)

    def _turned(self) -> None:
        self._turned_at = time.monotonic()


def _stacks() -> str:
    """The stacks of all threads: files, lines and source, no values."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()  # noqa: SLF001 - documented, and nothing else gives it
    found = sorted(
        (names.get(ident, str(ident)), "".join(traceback.format_stack(frame))) for ident, frame in frames.items()
    )
    return "\n".join(f"{name}:\n{stack}" for name, stack in found)
