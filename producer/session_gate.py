"""Calls that may have to wait for their session: few at a time, one of a session, and none for long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from turnstile.errors import DatabaseUnavailableError

Session = tuple[str, str]
"""Tenant and session."""


class SessionGate:
    """Lets in `lanes` at a time, and of a session one, so that a session that somebody holds takes one lane and not all.

    Whoever has waited for `patience_seconds` is refused and never let in: a call that waited without end would be done when
    its client has long given up, and interrupt, cancel or merge into turns that came after it.
    """

    def __init__(self, lanes: int, patience_seconds: float) -> None:
        self._lanes = asyncio.Semaphore(lanes)
        self._patience_seconds = patience_seconds
        # As long as somebody is inside or waits.
        self._sessions: WeakValueDictionary[Session, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def enter(self, session: Session) -> AsyncIterator[None]:
        """The block is inside. Raises DatabaseUnavailableError, with nothing done, after `patience_seconds`."""
        alone = self._sessions.setdefault(session, asyncio.Lock())
        async with AsyncExitStack() as inside:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    await inside.enter_async_context(alone)
                    await inside.enter_async_context(self._lanes)
            except TimeoutError:
                raise DatabaseUnavailableError("too many requests wait for their sessions") from None
            yield
