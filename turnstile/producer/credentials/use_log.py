"""Logs which credential called which route, so that a leaked one leaves a trace: a line a minute for each, with a count."""

import asyncio
from collections import Counter

from turnstile.access.caller import Caller
from turnstile.telemetry.own_log import log

EVERY_SECONDS = 60.0
MOST_LINES = 1000
"""Lines of one minute. What is called beyond, by other credentials or on other routes, is one line."""

Call = tuple[str, str, str, str]
"""Tenant, credential, method, and template of the route."""


class UseLog:
    """One per process. For the event loop."""

    def __init__(self) -> None:
        self._counts: Counter[Call] = Counter()
        self._others = 0
        self._next: asyncio.TimerHandle | None = None

    def note(self, caller: Caller, method: str, route: str) -> None:
        """Counts a request, whatever came of it."""
        call = (caller.tenant_id, caller.key_id, method, route)
        if call in self._counts or len(self._counts) < MOST_LINES:
            self._counts[call] += 1
        else:
            self._others += 1
        if self._next is None:
            self._next = asyncio.get_running_loop().call_later(EVERY_SECONDS, self.close)

    def close(self) -> None:
        """Logs what has been counted, and begins again."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        for (tenant_id, key_id, method, route), count in self._counts.items():
            log.info("api.used", tenant_id=tenant_id, key_id=key_id, method=method, route=route, count=count)
        if self._others:
            log.info("api.used", others=True, count=self._others)
        self._counts.clear()
        self._others = 0
