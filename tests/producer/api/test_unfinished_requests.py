"""Connections without a complete request: they are closed after seconds, and sooner if there are too many."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.responses import PlainTextResponse, StreamingResponse

from tests.producer.api.plain_server import serving_plainly
from turnstile.producer.http import client_connections

WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
REFUSED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx"
HANGS_SECONDS = 60.0


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that is late is so after a fifth of a second."""
    monkeypatch.setattr(client_connections, "HEAD_SECONDS", 0.2)


class Line:
    """A client's connection."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader = reader
        self._writer = writer

    def say(self, words: bytes) -> None:
        self._writer.write(words)

    async def rest(self) -> bytes:
        """All that the server sends until it closes the connection."""
        async with asyncio.timeout(HANGS_SECONDS):
            try:
                return await self.reader.read()
            except ConnectionResetError:
                return b""


@asynccontextmanager
async def serving(app: Any, most: int = 100) -> AsyncIterator[Any]:
    """Calls the server: each call is a new connection."""
    opened: list[StreamWriter] = []

    async with serving_plainly(app, most) as (_, port):

        async def call(words: bytes = b"") -> Line:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.append(writer)
            writer.write(words)
            return Line(reader, writer)

        try:
            yield call
        finally:
            for writer in opened:
                writer.transport.abort()


@pytest.mark.usefixtures("soon")
async def test_a_late_head_gets_408() -> None:
    async with serving(PlainTextResponse("said")) as call:
        received = await (await call(HALF)).rest()

    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    assert b'"/problems/request-too-slow"' in body


@pytest.mark.usefixtures("soon")
async def test_a_connection_that_sends_nothing_is_closed_without_a_response() -> None:
    async with serving(PlainTextResponse("said")) as call:
        assert await (await call()).rest() == b""


@pytest.mark.usefixtures("soon")
async def test_the_time_for_a_later_head_starts_with_its_first_byte() -> None:
    async with serving(PlainTextResponse("said")) as call:
        line = await call(WHOLE)
        assert (await line.reader.readuntil(b"said")).startswith(b"HTTP/1.1 200")
        line.say(HALF)

        assert (await line.rest()).startswith(b"HTTP/1.1 408")


@pytest.mark.usefixtures("soon")
async def test_a_body_that_continues_after_the_response_is_cut_off() -> None:
    async with serving(PlainTextResponse("no")) as call:
        line = await call(REFUSED)
        await line.reader.readuntil(b"no")
        line.say(b"x")

        assert await line.rest() == b""


@pytest.mark.usefixtures("soon")
async def test_a_complete_request_has_no_time_limit() -> None:
    going_on = asyncio.Event()
    asked = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.set()
        await going_on.wait()
        await PlainTextResponse("said")(scope, receive, send)

    async with serving(app) as call:
        line = await call(WHOLE)
        await asked.wait()
        # Longer than a head may take, and so long does this one.
        assert (await (await call(HALF)).rest()).startswith(b"HTTP/1.1 408")
        going_on.set()

        assert (await line.reader.readuntil(b"said")).startswith(b"HTTP/1.1 200")


async def test_above_the_limit_the_connection_that_has_waited_longest_is_closed() -> None:
    async def endless() -> Any:
        yield "one"
        await asyncio.Event().wait()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        answer = StreamingResponse(endless()) if scope["path"] == "/stream" else PlainTextResponse("said")
        await answer(scope, receive, send)

    async with serving(app, most=3) as call:
        stream = await call(WHOLE.replace(b"/ ", b"/stream "))
        await stream.reader.readuntil(b"one")
        first = await call(HALF)
        second = await call(WHOLE)
        await second.reader.readuntil(b"said")

        fresh = await call(WHOLE)

        assert (await fresh.reader.readuntil(b"said")).startswith(b"HTTP/1.1 200")
        assert await first.rest() == b""
        second.say(WHOLE)
        assert (await second.reader.readuntil(b"said")).startswith(b"HTTP/1.1 200")
        assert not stream.reader.at_eof()
