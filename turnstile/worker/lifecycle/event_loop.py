"""A worker's event loop: asyncio's, except that handlers can neither end it nor fill its resolver threads.

asyncio ends the loop when a task or a callback raises SystemExit or KeyboardInterrupt, or calls `stop`. The loop would be gone,
but not the process: at its end Python waits for the handlers' threads, they wait for the loop, and the heartbeat's thread renews
the leases of turns that no handler works on.

asyncio resolves host names on the loop's few default threads, which handlers use as well (`asyncio.to_thread`). Handlers that
fill them, for instance with calls that hang, would block every new connection to SQS, Redis and Postgres.
"""

import asyncio
import socket
import traceback
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from turnstile.telemetry.own_log import log
from turnstile.worker.attempt.attempt import ids_of

THREADS = 4
"""Resolver threads. More than one, so that a slow resolution of one name does not delay the others."""


class WorkerLoop(asyncio.SelectorEventLoop):
    """An event loop that outlives exits, with its own resolver threads."""

    def __init__(self) -> None:
        super().__init__()
        self._main: asyncio.Future[Any] | None = None
        self._resolvers = ThreadPoolExecutor(THREADS, "resolver")

    def run_until_complete(self, future: Any) -> Any:
        """The same as asyncio's, but an exit ends only the task or callback that raised it. The task's awaiter sees the exit."""
        main = asyncio.ensure_future(future, loop=self)
        if not self.is_running():
            self._main = main
        while not main.done():
            try:
                super().run_until_complete(main)
            except (SystemExit, KeyboardInterrupt) as error:
                # The place, for the handler's author; not the text, which may quote user content.
                where = "".join(traceback.format_tb(error.__traceback__)[-6:])
                log.warning("worker.exit_refused", error_class=type(error).__name__, where=where)
        return main.result()

    def stop(self) -> None:
        """Refused while the worker runs; asyncio calls it at the end of `run_until_complete`."""
        if self._main is None or self._main.done():
            super().stop()
            return
        where = "".join(traceback.format_stack(limit=7)[:-1])
        log.warning("worker.stop_refused", where=where, **ids_of(asyncio.current_task(self)))

    async def getaddrinfo(self, *asked: Any, **how: Any) -> Any:
        return await self.run_in_executor(self._resolvers, partial(socket.getaddrinfo, *asked, **how))

    def close(self) -> None:
        """Closes the loop and its resolver threads; a resolution under way is not waited for."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)
        super().close()
