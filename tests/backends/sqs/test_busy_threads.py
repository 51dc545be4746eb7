"""Handlers that occupy all threads of the loop do not delay the lookup of a server's name."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from urllib.parse import urlsplit

import pytest

from tests.backends.sqs.asking_sqs import give_environment
from tests.support.scripted_sqs import scripted
from turnstile.backends.sqs.sqs_client import POLL, SqsClient
from turnstile.worker.lifecycle.event_loop import WorkerLoop


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A worker's, whose one thread a handler has until the end of the test."""
    opened = WorkerLoop()
    opened.set_default_executor(ThreadPoolExecutor(1))
    may_end = threading.Event()
    opened.run_in_executor(None, partial(may_end.wait, 60))
    yield opened
    may_end.set()
    opened.run_until_complete(opened.shutdown_default_executor())
    opened.close()


def test_sqs_is_reached_while_all_threads_are_busy(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_environment(monkeypatch)

    async def poll() -> int:
        async with scripted() as sqs, asyncio.timeout(30):
            there = f"http://localhost:{urlsplit(sqs.address).port}"
            client = SqsClient.open("us-east-1", there)
            await client.call(POLL, {})
            await client.close()
            return len(sqs.requests)

    assert loop.run_until_complete(poll()) == 1
