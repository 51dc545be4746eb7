"""What an answer is written in, as the API is served, on a transport that keeps a list."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.responses import PlainTextResponse, StreamingResponse
from uvicorn.server import ServerState

from producer.app import server_config
from producer.client_connections import Connections
from tests.probes import until
from turns.settings import Settings

REQUEST = b"GET / HTTP/1.1\r\nHost: api\r\n\r\n"


class ListingTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.done: list[Any] = []

    def write(self, data: Any) -> None:
        self.done.append(bytes(data))

    def close(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


def ask(app: Any, request: bytes = REQUEST) -> tuple[Any, ListingTransport]:
    config = server_config(Settings(), app, Connections(100))
    config.load()
    protocol: Any = config.http_protocol_class
    protocol, transport = protocol(config, ServerState(), {}), ListingTransport()
    protocol.connection_made(transport)
    protocol.data_received(request)
    return protocol, transport


async def answered(transport: ListingTransport, what: Callable[[list[Any]], bool]) -> list[Any]:
    await until(lambda: what(transport.done))
    return transport.done


async def test_head_and_body_are_one_write() -> None:
    protocol, transport = ask(PlainTextResponse("said"))

    (written,) = await answered(transport, lambda done: any(b"said" in each for each in done))

    assert written.startswith(b"HTTP/1.1 200 OK\r\n")
    protocol.connection_lost(None)


async def test_what_is_written_alone_goes_out_by_itself() -> None:
    more = asyncio.Event()

    async def speak() -> Any:
        yield "one"
        yield "two"
        yield "three"
        await more.wait()

    protocol, transport = ask(StreamingResponse(speak()))

    written = await answered(transport, lambda done: b"three" in b"".join(done))

    assert b"".join(written).count(b"\r\n\r\n") == 1
    more.set()
    await answered(transport, lambda done: b"".join(done).endswith(b"0\r\n\r\n"))
    protocol.connection_lost(None)


async def test_what_waits_goes_out_before_the_connection_is_closed() -> None:
    async def break_off(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        raise ConnectionError

    _, transport = ask(break_off)

    head, closed = await answered(transport, lambda done: "closed" in done)

    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert closed == "closed"
