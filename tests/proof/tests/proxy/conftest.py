"""A proxy of each test's own, in front of the embedded stack."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import boto3
import psycopg
import pytest
from botocore.config import Config
from psycopg.conninfo import make_conninfo

from tests.proof.proxy.control import ProxyControl
from tests.proof.proxy.server import Address, FaultProxy
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.message import WakeUp


@pytest.fixture
def wire(tmp_path: Path) -> Path:
    return tmp_path / "wire.jsonl"


@contextmanager
def running(upstreams: Mapping[str, Address], wire: Path, seed: int) -> Iterator[ProxyControl]:
    """A proxy on an event loop and a thread of its own: the test may block its own event loop."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever)
    thread.start()
    proxy = FaultProxy(upstreams, wire, seed)

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
async def proxy(stack: Stack, wire: Path) -> AsyncIterator[ProxyControl]:
    """A running proxy without gates."""
    upstreams = {
        "postgres": ("127.0.0.1", stack.postgres.port),
        "redis": ("127.0.0.1", stack.redis.port),
        "sqs": ("127.0.0.1", stack.sqs.port),
    }
    with running(upstreams, wire, seed=7) as control:
        yield control


def through(url: str, port: int) -> str:
    """The same URL by way of a gate."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition(":")[0] + f":{port}").geturl()


async def connect(url: str, port: int | None = None) -> psycopg.AsyncConnection[tuple[object, ...]]:
    """A plain autocommit connection, through a gate or directly."""
    conninfo = make_conninfo(url if port is None else through(url, port), connect_timeout=3)
    return await psycopg.AsyncConnection.connect(conninfo, autocommit=True)


@pytest.fixture
async def sqs_port(proxy: ProxyControl) -> int:
    return await proxy.open("sqs", "worker-1")


@pytest.fixture
async def behind(settings: Settings, sqs_port: int) -> AsyncIterator[MessageQueues]:
    """The product's own hand on SQS, behind the proxy. (`queues` is past it.)"""
    opened = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": f"http://127.0.0.1:{sqs_port}"}))
    yield opened
    await opened.close()


@pytest.fixture
def plain(stack: Stack, sqs_port: int, settings: Settings) -> Any:
    """A plain boto3 client behind the proxy, which retries nothing."""
    return boto3.client(
        "sqs",
        endpoint_url=f"http://127.0.0.1:{sqs_port}",
        config=Config(retries={"total_max_attempts": 1}, read_timeout=5),
    )


def wake_up(session: str = "s") -> OutgoingMessage:
    return OutgoingMessage(WakeUp("t", session, uuid4()), "")


async def receive(queues: MessageQueues, queue: str, many: int = 1, *, dead: bool = False) -> list[ReceivedMessage]:
    """That many messages, in as many polls as it takes."""
    found: list[ReceivedMessage] = []

    async def enough() -> bool:
        found.extend(await queues.receive(queue, 10, dead=dead))
        return len(found) >= many

    await until(enough)
    return found
