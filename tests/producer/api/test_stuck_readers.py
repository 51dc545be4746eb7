"""A client that reads nothing, on a real socket: the kernel drops its connection, and its stream ends."""

import asyncio
import sys
from contextlib import nullcontext
from socket import SO_RCVBUF, SOL_SOCKET, socket
from typing import Any

import pytest

from tests.producer.api.plain_server import serving_plainly
from tests.support.probes import let_the_loop_turn, until
from turnstile.producer import server as server_module
from turnstile.producer.routes.event_stream import EventStream, ToldBytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such timeout")


async def endless() -> ToldBytes:
    while True:
        await let_the_loop_turn(1)
        yield b"data: " + b"x" * 16_000 + b"\n\n"


async def test_nothing_is_kept_for_a_reader_that_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "READER_SECONDS", 0.5)
    left = asyncio.Event()

    async def note() -> None:
        left.set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await EventStream(endless(), 15.0, nullcontext(), on_disconnect=note)(scope, receive, send)

    async with serving_plainly(app) as (server, port):
        with socket() as reader:
            reader.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", port))
            reader.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

            await until(lambda: server.server_state.connections)
            await until(lambda: not server.server_state.tasks and not server.server_state.connections)
    assert left.is_set()
