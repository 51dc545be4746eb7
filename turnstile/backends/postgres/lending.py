"""Takes connections out of psycopg's pool, and brings each of them back, whatever happens to the caller."""

import asyncio
import select
from typing import Any, cast

from psycopg_pool import AsyncConnectionPool

from turnstile.backends.postgres.pipeline import PipeliningConnection


class Lending:
    """A caller may be cancelled at any await. What it has taken, it must `give_back`."""

    def __init__(self, pool: AsyncConnectionPool[PipeliningConnection]) -> None:
        self._pool = pool
        # asyncio keeps only weak references to tasks.
        self._returns: set[asyncio.Task[None]] = set()

    async def take(self) -> PipeliningConnection:
        """A connection that the server has not closed. Raises psycopg.OperationalError if there is none in time."""
        # psycopg's own check on checkout costs a round trip, and a second for each broken connection.
        while True:
            connection = await self._get()
            if not _has_been_ended(connection):
                return connection
            await connection.close()
            await self.give_back(connection)

    async def give_back(self, connection: PipeliningConnection) -> None:
        # In a task that nobody cancels. A cancelled `putconn` drops the connection, and the pool goes on counting it: after a few
        # of them nobody would get a connection any more. Waited for, so that the caller's next call finds this one.
        returning = asyncio.create_task(self._pool.putconn(connection))
        self._returns.add(returning)
        returning.add_done_callback(self._returns.discard)
        await asyncio.shield(returning)

    async def _get(self) -> PipeliningConnection:
        # The pool uses `asyncio.wait_for`. In Python 3.11 that loses a cancellation that arrives together with the connection,
        # and a cancelled handler would go on. The task's own counter still has it.
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        before = task.cancelling()
        connection = await self._pool.getconn()
        if task.cancelling() > before:
            await self.give_back(connection)
            raise asyncio.CancelledError
        return connection


def _has_been_ended(connection: PipeliningConnection) -> bool:
    """Whether the server has closed the connection. A server that vanished silently is not detected here."""
    if connection.closed:
        return True
    # No request is open, so readable data can only be the server's reason for closing.
    looking = select.poll()
    looking.register(connection.fileno(), select.POLLIN)
    return bool(looking.poll(0))
