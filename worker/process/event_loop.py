"""A worker's event loop: asyncio's, except that it resolves host names on threads of its own.

asyncio resolves them on the loop's few default threads, which handlers use as well (`asyncio.to_thread`). Handlers that fill
them, for instance with calls that hang, would block every new connection to SQS, Redis and Postgres.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

THREADS = 4
"""Resolver threads. More than one, so that a slow resolution of one name does not delay the others."""


class WorkerLoop(asyncio.SelectorEventLoop):
    """An event loop with its own resolver threads. Create it by `new_event_loop`."""

    def __init__(self) -> None:
        super().__init__()
        self._resolvers = ThreadPoolExecutor(THREADS, "resolver")

    async def getaddrinfo(self, *asked: Any, **how: Any) -> Any:
        """The same as asyncio's, on the resolver threads."""
        return await self.run_in_executor(self._resolvers, partial(socket.getaddrinfo, *asked, **how))

    def close(self) -> None:
        """Closes the loop and its resolver threads; a resolution under way is not waited for."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)
        super().close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Returns a new WorkerLoop."""
    return WorkerLoop()
