"""redis-py's pools, with two changes; the connections of a cluster's nodes lie in no pool, and have neither.

A connection that has lain idle for a minute is closed: redis-py would keep what a busy moment took for good. Closed, not
forgotten: it stays in its pool and connects again when it is next taken.

Commands are packed by hiredis, as redis-py's blocking client has it. Its asyncio client packs in Python, 20 µs a command.
"""

import asyncio
from functools import cache
from typing import Any

import hiredis
from redis.asyncio import ConnectionPool
from redis.exceptions import DataError

IDLE_SECONDS = 60.0


@cache
def frugal(pool: type[ConnectionPool]) -> Any:
    """The same kind of pool, with both."""
    base: Any = pool

    class Frugal(base):  # type: ignore[misc]
        _timer: asyncio.TimerHandle | None = None
        _closing: asyncio.Task[None] | None = None

        def make_connection(self) -> Any:
            connection = super().make_connection()
            connection.pack_command = _pack
            return connection

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

    return Frugal


def _pack(name: str | bytes, *arguments: Any) -> list[bytes]:
    # A name may be several words, as in CLIENT SETINFO; Redis wants them apart.
    words = name.encode().split() if isinstance(name, str) else name.split()
    try:
        return [hiredis.pack_command((*words, *arguments))]
    except TypeError as error:
        raise DataError(str(error)) from error
