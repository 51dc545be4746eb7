"""What may happen thousands of times a second, in one line of the log a second at most."""

import asyncio
from typing import Any

import structlog

SECONDS = 1.0

log = structlog.get_logger("turnstile.api")


class Tally:
    """Counts how often `event` happens. The first is logged at once, what follows it once a second with its `count`."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._count = 0
        self._facts: dict[str, Any] = {}
        self._next: asyncio.TimerHandle | None = None

    def note(self, **facts: Any) -> None:
        """It happened. The line has the `facts` of the last time."""
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
