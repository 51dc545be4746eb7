"""A proxy of each test's own, in front of the embedded stack."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.proof.proxy.control import ProxyControl
from tests.proof.proxy.server import Address, FaultProxy
from tests.support.stacks.stack import Stack


@contextmanager
def running(upstreams: Mapping[str, Address], folder: Path, seed: int) -> Iterator[ProxyControl]:
    """A proxy on an event loop and a thread of its own: the test may block its own event loop."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    proxy = FaultProxy(upstreams, folder, seed)

    async def end() -> None:
        proxy.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    try:
        control = ProxyControl(asyncio.run_coroutine_threadsafe(proxy.listen(0), loop).result())
        yield control
        control.close()
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
async def proxy(stack: Stack, tmp_path: Path) -> AsyncIterator[ProxyControl]:
    """A running proxy without gates."""
    upstreams = {
        "postgres": ("127.0.0.1", stack.postgres.port),
        "redis": ("127.0.0.1", stack.redis.port),
        "sqs": ("127.0.0.1", stack.sqs.port),
    }
    with running(upstreams, tmp_path, seed=7) as control:
        yield control


def through(url: str, port: int) -> str:
    """The same URL by way of a gate."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition(":")[0] + f":{port}").geturl()


async def connect(url: str, port: int | None = None) -> psycopg.AsyncConnection[tuple[object, ...]]:
    """A plain autocommit connection, through a gate or directly."""
    conninfo = make_conninfo(url if port is None else through(url, port), connect_timeout=3)
    return await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
