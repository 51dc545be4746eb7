"""TLS in front of a server that was built without it: the programs of the stack come from wheels and know none.

A client that begins with a handshake, or with Postgres's request for one, gets TLS; any other passes through unchanged, so
that sentinels and nodes can speak to one another at the addresses that they give their clients.
"""

import asyncio
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from turnstile.dev.stack.ports import LOOPBACK, choose_free

HANDSHAKE = b"\x16"
POSTGRES_ASKS = bytes.fromhex("0000000804d2162f")


class TlsFront:
    """For as long as the block lasts, on a thread of its own: tests block their loops."""

    def __init__(self, target: int, certificate: Path) -> None:
        self._target = target
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        # Not any port: a node of a cluster keeps reconnecting to one whose server is stopped.
        self._listening = socket.create_server((LOOPBACK, choose_free()))
        self._listening.setblocking(False)
        self.port: int = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"tls-front-{self.port}", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> "TlsFront":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()
        tasks = [accepting, *self._connections]
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()
        self._listening.close()

    async def _accept(self) -> None:
        while True:
            connection, _ = await self._loop.sock_accept(self._listening)
            connection.setblocking(False)
            task = self._loop.create_task(self._serve(connection))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, connection: socket.socket) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            begun = await self._peek(connection)
            if begun == POSTGRES_ASKS:
                connection.recv(len(begun))
                await self._loop.sock_sendall(connection, b"S")
            tls = self._context if begun[:1] == HANDSHAKE or begun == POSTGRES_ASKS else None
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection, ssl=tls)
            writers.append(asyncio.StreamWriter(transport, protocol, reader, self._loop))
            there, writer = await asyncio.open_connection(LOOPBACK, self._target)
            writers.append(writer)
            pumps = [asyncio.create_task(_pump(reader, writer)), asyncio.create_task(_pump(there, writers[0]))]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            # Handshakes that were refused, servers that were killed: what the tests are about.
            pass
        finally:
            for each in writers:
                each.transport.abort()
            if not writers:
                connection.close()

    async def _peek(self, connection: socket.socket) -> bytes:
        readable = asyncio.Event()
        self._loop.add_reader(connection, readable.set)
        try:
            await readable.wait()
        finally:
            self._loop.remove_reader(connection)
        return connection.recv(len(POSTGRES_ASKS), socket.MSG_PEEK)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
