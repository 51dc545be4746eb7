"""A connection that is relayed byte by byte: Postgres and Redis. What understands their protocols builds on it."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import cast

from tests.proof.proxy.gate import Gate
from tests.proof.proxy.lane import Lane

_LINGER_NOT = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    # On a socket that is gone already there is nothing to reset.
    with contextlib.suppress(OSError):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    transport.abort()


class ServerSide(asyncio.Protocol):
    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.server_connected(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        self._connection.from_server(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._connection.server_lost()


class ClientSide(asyncio.Protocol):
    """A client's connection to the gate. `up` carries its bytes to `forward`, `down` carries what it gets."""

    def __init__(self, gate: Gate, forward: Callable[[bytes], None], finish: Callable[[], None]) -> None:
        self.gate = gate
        self.up = Lane(gate, forward, finish)
        self.down = Lane(gate, self._to_client, self._finish_client)
        self._client: asyncio.Transport | None = None

    def toxics_changed(self) -> None:
        """Lets out what may go now."""
        self.up.pump()
        self.down.pump()

    def is_broken(self) -> bool:
        """Whether bytes are missing in it."""
        return self.up.broken or self.down.broken

    def break_off(self, *, reset: bool) -> None:
        """Closes both sides at once, with an RST if so wanted."""
        raise NotImplementedError

    def _to_client(self, data: bytes) -> None:
        if self._client is not None and not self._client.is_closing():
            self._client.write(data)

    def _finish_client(self) -> None:
        if self._client is not None:
            self._client.close()


class Connection(ClientSide):
    """A client's connection to the gate and the proxy's to the upstream, as one."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate, self._to_server, self._finish_server)
        self._server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[object] | None = None
        self._answer_lost = False
        """From now on nothing that the server says is passed on."""
        self._request_complete = False
        """After that, nothing that the client says either."""

    # --- what a protocol changes

    def from_client(self, data: bytes) -> None:
        self.up.feed(data)

    def from_server(self, data: bytes) -> None:
        if not self._answer_lost:
            self.down.feed(data)

    def lose_answer(self) -> None:
        self._answer_lost = True

    def request_complete(self) -> None:
        """After `lose_answer`: the client's request is wholly forwarded. Cuts the client when the server has done it.

        The server sees the end of the request. It executes what it has read before it looks for more, and closes:
        its close says that the request was done, without a look at its answers.
        """
        self._request_complete = True
        self.up.end()

    # --- the client's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._client = cast("asyncio.Transport", transport)
        if not self.gate.admit(self):
            self.break_off(reset=True)
        elif self.gate.find("half_open") is None:
            loop = asyncio.get_running_loop()
            # After the transport has begun to read, which it does right after this: Python 3.11.2 does not look whether it was
            # paused, and what came before the server was there would be lost.
            loop.call_soon(self._client.pause_reading)
            self._connecting = loop.create_task(self._connect())
        else:
            # Never connected to anything: can't be healed.
            self.up.broken = True
            self.gate.count("half_open")

    def data_received(self, data: bytes) -> None:
        if not self._request_complete:
            self.from_client(data)

    def connection_lost(self, _: Exception | None) -> None:
        self._client = None
        self.down.close()
        if self._server is None:
            self._forget()
        elif not self._answer_lost:
            self.up.end()

    # --- the server's side

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: ServerSide(self), *self.gate.upstream)
        except OSError:
            self.gate.count("upstream_away")
            self.break_off(reset=True)

    def server_connected(self, transport: asyncio.Transport) -> None:
        self._server = transport
        if self._client is None:
            transport.abort()
        else:
            self._client.resume_reading()

    def server_lost(self) -> None:
        self._server = None
        self.up.close()
        if self._client is None:
            self._forget()
        elif self._answer_lost:
            self.break_off(reset=True)
        else:
            self.down.end()

    # --- the gate's

    def break_off(self, *, reset: bool) -> None:
        self._forget()
        for transport in (self._client, self._server):
            if transport is not None and not transport.is_closing():
                close(transport, with_reset=reset)

    def _forget(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
        self.up.close()
        self.down.close()
        self.gate.connections.discard(self)

    # --- the lanes'

    def _to_server(self, data: bytes) -> None:
        if self._server is not None:
            self._server.write(data)

    def _finish_server(self) -> None:
        if self._server is None or self._server.is_closing():
            return
        if self._answer_lost:
            self._server.write_eof()
        else:
            self._server.close()


def close(transport: asyncio.Transport, *, with_reset: bool) -> None:
    if with_reset:
        reset(transport)
    else:
        transport.close()
