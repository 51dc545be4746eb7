"""The answer that follows a turn, on a server that takes nothing more for its reader."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.probes import let_the_loop_turn
from turnstile.producer.routes import stream
from turnstile.producer.routes.stream import EventStream
from turnstile.producer.watch.turn_watch import Told
from turnstile.streaming.event import EventKind


async def silence() -> AsyncGenerator[None, None]:
    while True:
        await let_the_loop_turn(1)
        yield None


async def never() -> Any:
    await asyncio.Event().wait()


async def test_a_reader_for_whom_nothing_can_be_sent_is_one_that_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.01)
    left = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await never()

    async def note() -> None:
        left.set()

    # A machine that vanished: no byte of it comes, and its buffers are full.
    await EventStream(silence(), 0.0, note)({"type": "http"}, never, send)

    assert left.is_set()


async def test_the_last_word_waits_no_longer_for_its_reader_than_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.01)
    left = asyncio.Event()

    async def said() -> AsyncGenerator[Told, None]:
        yield Told(EventKind.END, "{}")

    async def send(message: Any) -> None:
        # What was sent before has filled the buffers.
        if message["type"] == "http.response.body" and not message["more_body"]:
            await never()

    async def note() -> None:
        left.set()

    async with asyncio.timeout(30):
        await EventStream(said(), 15.0, note)({"type": "http"}, never, send)

    assert left.is_set()


async def test_a_reader_that_takes_nothing_from_the_start_is_one_that_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another answer has left in the connection's buffers may be in the way of the very first line."""
    monkeypatch.setattr(stream, "PATIENCE_SECONDS", 0.01)
    left = asyncio.Event()

    async def send(message: Any) -> None:
        await never()

    async def note() -> None:
        left.set()

    async with asyncio.timeout(10):
        await EventStream(silence(), 0.0, note)({"type": "http"}, never, send)

    assert left.is_set()


async def test_a_reader_that_leaves_before_the_start_is_waited_for_no_longer() -> None:
    left = asyncio.Event()

    async def send(message: Any) -> None:
        await never()

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def note() -> None:
        left.set()

    async with asyncio.timeout(10):
        await EventStream(silence(), 15.0, note)({"type": "http"}, receive, send)

    assert left.is_set()
