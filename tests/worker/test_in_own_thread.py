"""The worker's own blocking calls do not wait behind those of handlers."""

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.probes import until
from turnstile.worker.in_own_thread import in_own_thread


@pytest.fixture
async def full() -> AsyncIterator[None]:
    """All threads of the loop are taken."""
    loop, over = asyncio.get_running_loop(), threading.Event()
    threads = ThreadPoolExecutor(1)
    loop.set_default_executor(threads)
    blocked = loop.run_in_executor(None, over.wait)
    yield
    over.set()
    await blocked


@pytest.mark.usefixtures("full")
async def test_a_call_runs_while_all_threads_of_the_loop_are_taken() -> None:
    async with asyncio.timeout(10):
        assert await in_own_thread(divmod, 7, 2) == (3, 1)


async def test_its_thread_ends_with_it() -> None:
    await in_own_thread(divmod, 7, 2)

    await until(lambda: not any(thread.name.startswith("own") for thread in threading.enumerate()))
