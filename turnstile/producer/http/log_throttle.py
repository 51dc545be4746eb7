"""Throttled logging: at most one log line a second for an event that may happen thousands of times a second."""

import asyncio
import logging
from typing import Any

from turnstile.telemetry.own_log import log

SECONDS = 1.0


class Tally:
    """Counts an event. The first is logged at once, later ones once a second with their `count`."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._count = 0
        self._facts: dict[str, Any] = {}
        self._next: asyncio.TimerHandle | None = None

    def note(self, **facts: Any) -> None:
        """Counts one event. The log line has the `facts` of the last one."""
        self._count += 1
        self._facts = facts
        if self._next is None:
            self._say()

    def _say(self) -> None:
        self._next = None
        if self._count:
            log.warning(self._event, count=self._count, **self._facts)
            self._count = 0
            self._next = asyncio.get_running_loop().call_later(SECONDS, self._say)


class LibraryWarnings(logging.Filter):
    """Filters a library's logger: counts the warnings, which a client can cause at will, lets errors pass and drops the rest."""

    def __init__(self, event: str) -> None:
        super().__init__()
        self._tally = Tally(event)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno >= logging.ERROR:
            return True
        if record.levelno >= logging.WARNING:
            self._tally.note(message=record.getMessage())
        return False
