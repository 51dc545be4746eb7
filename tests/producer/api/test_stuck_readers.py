"""A reader that takes nothing, on a real socket: its connection is given up, and not only its answer."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from socket import SO_RCVBUF, SOL_SOCKET, socket
from typing import Any

import pytest
import uvicorn

from tests.support.probes import until
from turnstile.producer.routes import stream
from turnstile.producer.routes.stream import EventStream
from turnstile.producer.server import listen
from turnstile.producer.watch.turn_watch import Told
from turnstile.streaming.event import EventKind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel has no such time-out")


async def endless() -> AsyncGenerator[Told, None]:
    while True:
        yield Told(EventKind.DELTA, '"' + "x" * 16_000 + '"')


async def one_large_word() -> AsyncGenerator[Told, None]:
    yield Told(EventKind.END, '"' + "x" * 6_000_000 + '"')


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[uvicorn.Server, Any]]:
    [listening] = listen("127.0.0.1", 0)
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve([listening]))
    try:
        await until(lambda: server.started or running.done())
        yield server, listening.getsockname()
    finally:
        server.should_exit = True
        await running


@pytest.mark.parametrize("telling", [endless, one_large_word])
async def test_nothing_is_kept_for_a_reader_that_takes_nothing(telling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.5)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await EventStream(telling(), 15.0)(scope, receive, send)

    async with serving(app) as (server, address):
        with socket() as reader:
            reader.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
            reader.connect(address)
            reader.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")

            await until(lambda: server.server_state.connections)
            await until(lambda: not server.server_state.tasks and not server.server_state.connections)
