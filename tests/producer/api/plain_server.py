"""The server on a socket of its own, around any ASGI application."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from socket import socket
from typing import Any

import uvicorn

from tests.support.probes import until
from turnstile.producer.http.client_connections import Connections
from turnstile.producer.server import Server, listen


@asynccontextmanager
async def running(server: Server, listening: socket | None = None) -> AsyncIterator[int]:
    """The port on which the server listens until the block ends."""
    listening = listening or listen("127.0.0.1", 0)[0]
    serving = asyncio.create_task(server.serve([listening]))
    try:
        await until(lambda: server.started or serving.done())
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def serving_plainly(app: Any, most: int = 100) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """The server and its port. It accepts `most` connections."""
    config = uvicorn.Config(
        app,
        http=Connections(most).protocol,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = Server(config, lambda: None)
    async with running(server) as port:
        yield server, port
