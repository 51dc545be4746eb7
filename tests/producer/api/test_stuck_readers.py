"""A client that reads nothing, on a real socket: the kernel drops its connection, and its stream ends."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from socket import SO_RCVBUF, SOL_SOCKET, socket
from typing import Any

import pytest
import uvicorn

from tests.support.probes import let_the_loop_turn, until
from turnstile.producer import server as server_module
from turnstile.producer.http.client_connections import Connections
from turnstile.producer.routes.stream import EventStream
from turnstile.producer.server import Server, listen
from turnstile.producer.watch.turn_watch import Told
from turnstile.streaming.event import EventKind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such timeout")


async def endless() -> AsyncGenerator[Told, None]:
    while True:
        await let_the_loop_turn(1)
        yield Told(EventKind.DELTA, '"' + "x" * 16_000 + '"')


async def one_large_event() -> AsyncGenerator[Told, None]:
    yield Told(EventKind.END, '"' + "x" * 6_000_000 + '"')


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[uvicorn.Server, Any]]:
    [listening] = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app,
        http=Connections(10).protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = Server(config, lambda: None)
    running = asyncio.create_task(server.serve([listening]))
    try:
        await until(lambda: server.started or running.done())
        yield server, listening.getsockname()
    finally:
        server.should_exit = True
        await running


@pytest.mark.parametrize("telling", [endless, one_large_event])
async def test_nothing_is_kept_for_a_reader_that_reads_nothing(telling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "READER_SECONDS", 0.5)
    left = asyncio.Event()

    async def note() -> None:
        left.set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await EventStream(telling(), 15.0, note)(scope, receive, send)

    async with serving(app) as (server, address):
        with socket() as reader:
            reader.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
            reader.connect(address)
            reader.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

            await until(lambda: server.server_state.connections)
            await until(lambda: not server.server_state.tasks and not server.server_state.connections)
    # A response that is sent whole before the kernel drops the connection was not broken off.
    assert left.is_set() == (telling is endless)
