"""redis-py's pools, but a connection that has lain idle for a minute is closed. They would keep what a busy moment took for good.

Closed, not forgotten: it stays in its pool and connects again when it is next taken. Those of a cluster's nodes lie in no pool,
and are kept.
"""

import asyncio
from functools import cache
from typing import Any

from redis.asyncio import ConnectionPool

IDLE_SECONDS = 60.0


@cache
def giving_back(pool: type[ConnectionPool]) -> Any:
    """The same kind of pool, but one that closes what lies idle."""
    base: Any = pool

    class GivingBack(base):  # type: ignore[misc]
        _timer: asyncio.TimerHandle | None = None
        _closing: asyncio.Task[None] | None = None

        async def release(self, connection: Any) -> None:
            await super().release(connection)
            loop = asyncio.get_running_loop()
            connection.idle_since = loop.time()
            if self._timer is None:
                # Not a task that sleeps: nobody would be there to cancel it.
                self._timer = loop.call_later(IDLE_SECONDS, self._look)

        def _look(self) -> None:
            self._timer = None
            self._closing = asyncio.get_running_loop().create_task(self._close_idle())

        async def _close_idle(self) -> None:
            loop = asyncio.get_running_loop()
            lying = [one for one in self._get_free_connections() if one.is_connected]
            for one in lying:
                # The last look and the end are one step of the loop: nobody waits for the end, or could take it in between.
                if loop.time() - one.idle_since >= IDLE_SECONDS and one in self._get_free_connections():
                    await one.disconnect(nowait=True)
            if lying and self._timer is None:
                self._timer = loop.call_later(IDLE_SECONDS, self._look)

    return GivingBack
