"""Limits calls that may wait for a locked session: few at a time, one per session, each for a limited time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from turnstile.errors import DatabaseUnavailableError

Session = tuple[str, str]
"""Tenant and session."""


class SessionGate:
    """Admits `lanes` calls at a time, and one per session, so that a locked session occupies one lane and not all.

    A call that has waited for `patience_seconds` is refused. Without this limit, a call could take effect long after its client
    has given up, and interrupt, cancel or merge into later turns.
    """

    def __init__(self, lanes: int, patience_seconds: float) -> None:
        self._lanes = asyncio.Semaphore(lanes)
        self._patience_seconds = patience_seconds
        # An entry lives as long as a call of the session runs or waits.
        self._sessions: WeakValueDictionary[Session, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def enter(self, session: Session) -> AsyncIterator[None]:
        """The block runs admitted. Raises DatabaseUnavailableError, with nothing done, after `patience_seconds`."""
        alone = self._sessions.setdefault(session, asyncio.Lock())
        async with AsyncExitStack() as inside:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    await inside.enter_async_context(alone)
                    await inside.enter_async_context(self._lanes)
            except TimeoutError:
                raise DatabaseUnavailableError("too many requests wait for their sessions") from None
            yield
