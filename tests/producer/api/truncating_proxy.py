"""A relay in front of the API that breaks each connection after some bytes of the answer, as bad networks and proxies do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Scissors:
    """Cuts the n-th connection after `budget(n)` bytes of its answer; never, if that is None."""

    def __init__(self, target: int, budget: Callable[[int], int | None]) -> None:
        self._target = target
        self._budget = budget
        self.connections = 0
        self.cuts = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        left = self._budget(self.connections)
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        up = asyncio.create_task(self._carry_up(reader, far_writer))
        self._tasks.add(up)
        try:
            while data := await far_reader.read(65_536):
                writer.write(data if left is None else data[:left])
                if left is not None:
                    left -= len(data)
                    if left <= 0:
                        self.cuts += 1
                        # What was written before the cut arrives, and then nothing: neither an end of chunks nor a reason.
                        await writer.drain()
                        break
        except OSError:
            pass
        finally:
            up.cancel()
            writer.close()
            far_writer.transport.abort()

    async def _carry_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)


@asynccontextmanager
async def scissors_before(port: int, budget: Callable[[int], int | None]) -> AsyncIterator[tuple[Scissors, int]]:
    """The scissors, and the port to go through."""
    scissors = Scissors(port, budget)
    server = await asyncio.start_server(scissors.connect, "127.0.0.1", 0)
    try:
        yield scissors, server.sockets[0].getsockname()[1]
    finally:
        server.close()
