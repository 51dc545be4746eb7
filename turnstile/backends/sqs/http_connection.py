"""One kept-alive HTTP/1.1 connection on the event loop: a request out, an answer in, one after the other.

Whatever comes that is not the answer to a request (the word with which a server takes its leave of an idle client, a second
answer) makes the connection unusable, and never the next answer.
"""

import asyncio
import select
import socket
import ssl
from typing import cast

from turnstile.backends.sqs.http_answer import AnswerReader, HttpAnswer

NEXT_ADDRESS_SECONDS = 0.5
"""An address that has not answered for so long does not keep the next one waiting: a host has several, and one may be dead."""


class HttpConnection(asyncio.Protocol):
    """Made by `open`. Not for two requests at a time."""

    def __init__(self) -> None:
        self._reader = AnswerReader()
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

    def was_left(self) -> bool:
        """Whether something lies in the socket of which the loop has not heard yet. Nothing was asked, so it is the end."""
        looking = select.poll()
        looking.register(self._transport.get_extra_info("socket"), select.POLLIN)
        return bool(looking.poll(0))

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
        if self._waiting is None or self._waiting.done():
            self.close()
            return
        try:
            answer = self._reader.feed(data)
        except ValueError as error:
            # Here and not in `exchange`, which may have run out of time meanwhile.
            self.close()
            self._fail(error)
            return
        if answer is None:
            return
        # Not left to the server, which may forget to close it.
        if answer.is_last:
            self.close()
        self._waiting.set_result(answer)

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
