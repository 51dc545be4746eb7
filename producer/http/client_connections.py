"""The connections that clients have opened: a bounded number of them, and none that sends nothing for long.

A connection waits for its client before a request, until the request has arrived whole, and after the answer. Where there are too
many connections, the one that has waited longest is closed: a new client is served, however many others have sent half a request.
"""

import asyncio
from collections import OrderedDict
from functools import partial
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import Kind, ProblemError, respond

HEAD_SECONDS = 10.0
"""For the head of a request: from the opening of the connection, later from the first byte. A body has 30 s
(`producer/http/request_body.py`), silence between two requests 130 s (`producer/app.py:KEEP_ALIVE_SECONDS`)."""


class Connections:
    """All of a process. At most `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[ClientConnection] = set()
        self._waiting: OrderedDict[ClientConnection, None] = OrderedDict()
        """For their clients, in the order in which they began to."""
        self._closed = Tally("api.connections_full")

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """What uvicorn makes a connection with."""
        return cast("type[asyncio.Protocol]", partial(ClientConnection, self))

    @property
    def being_answered(self) -> int:
        """How many have sent a whole request and not got its whole answer."""
        return len(self._open) - len(self._waiting)

    def opened(self, connection: "ClientConnection") -> None:
        """There is one more. Closes another if these are too many."""
        self._open.add(connection)
        self._waiting[connection] = None
        while len(self._open) > self._most and self._waiting:
            longest, _ = self._waiting.popitem(last=False)
            self._open.discard(longest)
            self._closed.note(most=self._most)
            longest.break_off()

    def waits(self, connection: "ClientConnection") -> None:
        """It waits for its client, from now on or still."""
        if connection in self._open:
            self._waiting.setdefault(connection)

    def answers(self, connection: "ClientConnection") -> None:
        """A whole request has arrived."""
        self._waiting.pop(connection, None)

    def lost(self, connection: "ClientConnection") -> None:
        """It is closed."""
        self._open.discard(connection)
        self._waiting.pop(connection, None)


class ClientConnection(H11Protocol):
    """uvicorn's protocol, for a connection that is counted and whose requests must arrive in time."""

    def __init__(self, connections: Connections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._all = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)
        self._all.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.lost(self)
        self._forget_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answered = self._look()
        if answered and self._deadline is None:
            # The beginning of another request, or what is left of a body that nobody wanted.
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def break_off(self) -> None:
        """Closes the connection at once. What its client has not read of an answer is lost."""
        self.transport.abort()

    def _look(self) -> bool:
        """Whether there is no request, or the last has been answered."""
        if self.cycle is None or self.cycle.response_complete:
            self._all.waits(self)
            return True
        self._forget_deadline()
        if self.cycle.more_body:
            self._all.waits(self)
        else:
            self._all.answers(self)
        return False

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self.transport.is_closing():
            return
        begun, _ = self.conn.trailing_data
        if begun and self.conn.our_state is h11.IDLE:
            self.transport.write(_too_late())
        self.transport.close()


def _too_late() -> bytes:
    answer = respond(ProblemError(Kind.REQUEST_TOO_SLOW, f"its head within {HEAD_SECONDS:g} s"))
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return b"HTTP/1.1 408 Request Timeout\r\n" + headers + b"connection: close\r\n\r\n" + bytes(answer.body)
