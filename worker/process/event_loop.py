"""A worker's event loop: asyncio's own, but that it asks for addresses on threads of its own.

asyncio asks on the loop's few threads, which are the handlers' as well (`asyncio.to_thread`). Handlers that fill them, with calls
that hang for instance, would keep the worker from every new connection: to SQS, to Redis, to Postgres.
"""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

THREADS = 4
"""A resolver that is silent for one name should not keep the others waiting."""


class WorkerLoop(asyncio.SelectorEventLoop):
    """Made by `new_event_loop`."""

    def __init__(self) -> None:
        super().__init__()
        self._resolvers = ThreadPoolExecutor(THREADS, "resolver")

    async def getaddrinfo(self, *asked: Any, **how: Any) -> Any:
        """As asyncio's."""
        return await self.run_in_executor(self._resolvers, partial(socket.getaddrinfo, *asked, **how))

    def close(self) -> None:
        """Lets go of the threads as well; a question that is not answered yet is left behind."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)
        super().close()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """One that nobody has yet."""
    return WorkerLoop()
