"""Limits how many calls run at a time. The others wait, each tenant's in a line of its own, and the lines take turns.

So a call waits for at most one call of each other tenant that waits, however many calls another tenant has.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from turnstile.backends.lines import Lines
from turnstile.backends.postgres.database import Database
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError
from turnstile.producer.sharing.fair_places import FairPlaces

Waiting = tuple[str, "asyncio.Future[None]"]
"""A tenant, and its call's place in the line."""


class FairLanes:
    """`count` lanes, each for one call at a time. Not thread-safe."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lines: Lines[Waiting] = Lines(lambda waiting: waiting[0])
        self.answered = 0
        """Calls that have left a lane, and to which the database responded."""

    @asynccontextmanager
    async def enter(self, tenant_id: str) -> AsyncIterator[None]:
        """The block runs in a lane."""
        await self._take(tenant_id)
        answered = True
        try:
            yield
        except DatabaseUnavailableError as error:
            # A busy database has answered others meanwhile.
            answered = isinstance(error, ConnectionsBusyError)
            raise
        finally:
            self.answered += answered
            self._give_back()

    async def _take(self, tenant_id: str) -> None:
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.append((tenant_id, place))
        try:
            await place
        except asyncio.CancelledError:
            # It stays in its line, where `_give_back` passes over it.
            if not place.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        while self._lines:
            _, place = self._lines.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


class FairPool:
    """Connections of `database` for `lanes` calls at a time, to which the tenants take turns.

    A call that has waited for `patience_seconds` is refused.
    """

    def __init__(self, database: Database, lanes: int, patience_seconds: float, waiting: FairPlaces) -> None:
        self._database = database
        self._lanes = FairLanes(lanes)
        self.patience_seconds = patience_seconds
        self._waiting = waiting

    @asynccontextmanager
    async def lend(self, tenant_id: str) -> AsyncIterator[Database]:
        """The database, for one statement at a time. Raises NoPlaceError, or DatabaseUnavailableError if nobody is answered."""
        with self._waiting.take(tenant_id) as own:
            async with AsyncExitStack() as inside:
                before = self._lanes.answered
                try:
                    async with asyncio.timeout(self.patience_seconds):
                        await inside.enter_async_context(self._lanes.enter(tenant_id))
                except TimeoutError:
                    raise await self._waiting.refuse_wait(
                        tenant_id, own, answered=lambda: self._lanes.answered > before
                    ) from None
                yield self._database
