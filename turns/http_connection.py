"""One kept-alive HTTP/1.1 connection on the event loop: a request out, an answer in, one after the other.

As little of HTTP as SQS speaks: every answer has a Content-Length. Whatever comes that is not the answer to a request (the word
with which a server takes its leave of an idle client, a second answer) makes the connection unusable, and never the next answer.
"""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import cast

HEAD_END = b"\r\n\r\n"
NEXT_ADDRESS_SECONDS = 0.5
"""An address that has not answered for so long does not keep the next one waiting: a host has several, and one may be dead."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """`headers` by their names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class HttpConnection(asyncio.Protocol):
    """Made by `open`. Not for two requests at a time."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._head: tuple[int, dict[str, str], int] | None = None
        self._waiting: asyncio.Future[HttpAnswer] | None = None

    @staticmethod
    async def open(host: str, port: int, tls: ssl.SSLContext | None) -> "HttpConnection":
        """Connects; raises OSError, which ssl.SSLError is too."""
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            HttpConnection, host, port, ssl=tls, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS
        )
        # A poll says nothing for 20 s, and an idle connection for longer: whoever keeps track of connections may forget it.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    @property
    def is_idle(self) -> bool:
        """Whether the next request may be sent."""
        return self._waiting is None and not self._transport.is_closing()

    def close(self) -> None:
        """Lets go of it at once."""
        self._transport.abort()

    async def exchange(self, request: bytes, seconds: float) -> HttpAnswer:
        """The answer. Raises OSError (TimeoutError is one) or, where it makes no sense, ValueError; not usable any more, then."""
        if self._transport.is_closing():
            raise ConnectionResetError("closed before the request")
        waiting: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
        self._waiting = waiting
        self._transport.write(request)
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            if waiting.cancelled():
                self.close()
                raise
            # The answer was there in time, and something else held up the loop.
            return waiting.result()
        except BaseException:
            # A cancelled caller too: what is still to come would be the answer to the next request.
            self.close()
            raise
        finally:
            self._waiting = None

    # --- asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("closed before the answer was whole"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        try:
            answer = self._take_answer()
        except ValueError as error:
            self._fail(error)
            return
        if answer is not None:
            self._waiting.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)

    def _take_answer(self) -> HttpAnswer | None:
        if self._head is None:
            end = self._received.find(HEAD_END)
            if end < 0:
                return None
            self._head = _read_head(self._received[:end].decode("latin-1"))
            del self._received[: end + len(HEAD_END)]
        status, headers, length = self._head
        if len(self._received) < length:
            return None
        answer = HttpAnswer(status, headers, bytes(self._received[:length]))
        # Bytes beyond the answer belong to nothing that was asked. Not left to the server, which may forget to close it.
        if len(self._received) > length or headers.get("connection", "").lower() == "close":
            self.close()
        self._received.clear()
        self._head = None
        return answer


def _read_head(head: str) -> tuple[int, dict[str, str], int]:
    line, *lines = head.split("\r\n")
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("an answer that is not HTTP/1")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    if not headers.get("content-length", "").isdecimal():
        raise ValueError("an answer without a length")
    return int(rest[:3]), headers, int(headers["content-length"])
