"""Heads that are refused get a problem, and neither the parser nor the application sees them."""

import asyncio
import json
import logging
from typing import Any

import h11
import pytest
from starlette.responses import PlainTextResponse

from tests.producer.api.plain_server import serving_plainly

HANGS_SECONDS = 60.0
LINE = b"GET / HTTP/1.1\r\nHost: x\r\n"
WHOLE = LINE + b"\r\n"
REFUSED = {
    "a long query": (b"GET /v1/turns?" + b"a&" * 25_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414, "uri-too-long"),
    "a long query that has not ended": (b"POST /v1/sessions/s/turns?" + b"a&" * 2000, 414, "uri-too-long"),
    "many headers": (LINE + b"".join(b"h%x:\r\n" % one for one in range(4000)) + b"\r\n", 431, "headers-too-large"),
    "many headers that have not ended": (LINE + b"h:\r\n" * 200, 431, "headers-too-large"),
    "two lengths": (LINE + b"Content-Length: 3, 3\r\n\r\nabc", 400, "bad-request"),
    "no request": (b"nonsense\r\n\r\n", 400, "bad-request"),
    "a negative length": (LINE + b"Content-Length: -1\r\n\r\n", 400, "bad-request"),
    "no chunk": (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400, "bad-request"),
}


class Watched:
    """An application that reads the body, and counts the requests that it gets."""

    calls = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        if message["type"] == "http.request":
            await PlainTextResponse("said")(scope, receive, send)


async def exchange(app: Any, sent: bytes) -> bytes:
    """All that the server sends until it closes the connection."""
    async with serving_plainly(app) as (_, port), asyncio.timeout(HANGS_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        try:
            return await reader.read()
        finally:
            writer.transport.abort()


def expect_last_response(received: bytes, status: int, kind: str) -> None:
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode()), received
    assert b"content-type: application/problem+json" in head
    assert b"connection: close" in head
    assert json.loads(body)["type"] == f"/problems/{kind}"


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What asyncio and uvicorn log if the protocol raises."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_refused_gets_a_problem(what: str, caplog: pytest.LogCaptureFixture) -> None:
    sent, status, kind = REFUSED[what]

    received = await exchange(Watched(), sent)

    expect_last_response(received, status, kind)
    assert errors_in(caplog) == []


@pytest.mark.parametrize("before", [b"", WHOLE], ids=["first", "behind another request"])
@pytest.mark.parametrize("what", ["a long query", "many headers"])
async def test_a_head_above_the_limits_is_not_parsed(before: bytes, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []
    parse = h11.Connection._extract_next_receive_event

    def count(connection: h11.Connection) -> Any:
        event = parse(connection)
        parsed.extend([event] if isinstance(event, h11.Request) else [])
        return event

    monkeypatch.setattr(h11.Connection, "_extract_next_receive_event", count)
    sent, status, kind = REFUSED[what]
    app = Watched()

    received = await exchange(app, before + sent)

    expect_last_response(received[received.rindex(b"HTTP/1.1") :], status, kind)
    assert len(parsed) == app.calls == (1 if before else 0)


async def test_a_malformed_body_of_a_request_that_is_answered_already_only_closes_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hasty(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("no")(scope, receive, send)

    async with serving_plainly(hasty) as (_, port), asyncio.timeout(HANGS_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        await reader.readuntil(b"no")
        writer.write(b"nonsense\r\n")
        rest = await reader.read()
        writer.transport.abort()

    assert rest == b""
    assert errors_in(caplog) == []
