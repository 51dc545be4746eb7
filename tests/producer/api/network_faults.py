"""A cable between a client and a server, to be cut, plugged in again, or to lose responses."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


class Cable:
    """A TCP relay on a port of its own."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.silent = False
        """While set, the server's responses are dropped; requests still arrive."""
        self.lose_after: bytes | None = None
        """Once these bytes have gone to the server, its response is lost and the connection breaks. Once only."""
        self.budgets: Iterator[int] = iter(())
        """Each new connection breaks after the next of these numbers of bytes from the server; without one, not at all."""
        self.breaks = 0
        self.pieces = 0
        """How often something came for the server. What is sent one soon after the other may come as one."""

    async def plug_in(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(far_writer)
        doomed = asyncio.Event()
        down = self._carry_down(far_reader, writer, doomed, next(self.budgets, None))
        for carry in (self._carry_up(reader, far_writer, doomed), down):
            task = asyncio.create_task(carry)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry_up(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, doomed: asyncio.Event) -> None:
        while data := await _read(source):
            self.pieces += 1
            if self.lose_after is not None and self.lose_after in data:
                self.lose_after = None
                doomed.set()
            sink.write(data)
        sink.close()

    async def _carry_down(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, doomed: asyncio.Event, budget: int | None
    ) -> None:
        while data := await _read(source):
            if doomed.is_set():
                sink.transport.abort()
                return
            if not self.silent:
                sink.write(data[:budget])
            if budget is not None:
                budget = max(0, budget - len(data))
                if not budget:
                    self.breaks += 1
                    break
        sink.close()


async def _read(source: asyncio.StreamReader) -> bytes:
    try:
        return await source.read(65_536)
    except OSError:
        return b""


@asynccontextmanager
async def cable_to(host: str, port: int) -> AsyncIterator[Cable]:
    """A cable that is plugged in, and cut at the end."""
    cable = Cable(host, port)
    await cable.plug_in()
    try:
        yield cable
    finally:
        await cable.cut()


def at_port(url: str, port: int) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition(":")[0]
    return urlunsplit(parts._replace(netloc=f"{host}:{port}"))
