"""Work that ends when its client disconnects."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.support.probes import let_the_loop_turn
from turnstile.producer.http.disconnect import while_connected


async def stays() -> Any:
    await asyncio.Event().wait()


class Work:
    """Runs until it is cancelled, and notes that."""

    def __init__(self) -> None:
        self.cancelled = False

    async def __call__(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> Coroutine[Any, Any, None]:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await while_connected(stays, work())


async def test_a_disconnect_cancels_the_work() -> None:
    messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        await let_the_loop_turn(1)
        return next(messages)

    work = Work()

    assert await while_connected(receive, work()) is None
    assert work.cancelled


async def test_a_timeout_around_it_cancels_the_work() -> None:
    work = Work()

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await while_connected(stays, work())

    assert work.cancelled


async def test_another_event_ends_the_work_too() -> None:
    work, ended = Work(), asyncio.Event()
    ended.set()

    assert await while_connected(stays, work(), until=ended) is None
    assert work.cancelled
