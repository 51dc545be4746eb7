"""The news that attempts have begun: each waits a little for company, and one timer wakes them all.

Most attempts have ended before it is over: a timer for each would be set and taken back, in every turn.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context

OPENING_SECONDS = 0.02
"""How long the news that an attempt has begun waits for something to be said. That of a handler that takes no time goes
out together with its end: one append instead of two."""


class Openings:
    """Calls, each OPENING_SECONDS after it was added. For one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, Context, Callable[[], None]]] = deque()
        """The first to come first."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, call: Callable[[], None]) -> None:
        """Called back on the event loop, which this is called on, too. It must not raise."""
        due = asyncio.get_running_loop().time() + OPENING_SECONDS
        # Its own context: what the timer's has bound to its log lines is another turn's.
        self._waiting.append((due, copy_context(), call))
        if self._timer is None:
            self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_at(self._waiting[0][0], self._make_due)

    def _make_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._waiting and self._waiting[0][0] <= now:
            _, context, call = self._waiting.popleft()
            context.run(call)
        self._timer = None
        if self._waiting:
            self._wait()
