"""Limits the number of client connections, and closes connections that send nothing for long.

A connection waits for its client before a request, until the whole request has arrived, and after the response. If there are too
many connections, the one that has waited longest is closed: a new client is served even if many others have sent half a request.
"""

import asyncio
from collections import OrderedDict
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import Kind, ProblemError, respond
from turnstile.producer.http.request_head import HeadParser

HEAD_SECONDS = 10.0
"""Time limit for the head of a request: from the opening of the connection, later from the first byte. The limit for a body is
30 s (`producer.http.request_body`), for an idle connection 130 s (`producer.app.KEEP_ALIVE_SECONDS`)."""

HALF_CLOSED = "turnstile.half_closed"
"""Key of a request's `state`: an asyncio.Event that is set once the client has closed its sending half. It may read on, or have
closed the whole connection: only a write shows which."""


class Connections:
    """All client connections of a process, at most `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[ClientConnection] = set()
        self._waiting: OrderedDict[ClientConnection, None] = OrderedDict()
        """Connections that wait for their clients, longest wait first."""
        self._closed = Tally("api.connections_full")

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        return cast("type[asyncio.Protocol]", partial(ClientConnection, self))

    @property
    def may_wait(self) -> bool:
        """Whether a response may take longer than it needs: at least an eighth of the connections wait for their clients, or are
        none yet."""
        return len(self._open) - len(self._waiting) <= self._most - self._most // 8

    def opened(self, connection: "ClientConnection") -> None:
        """Adds a connection. Closes the one that has waited longest if there are too many."""
        self._open.add(connection)
        self._waiting[connection] = None
        while len(self._open) > self._most and self._waiting:
            longest, _ = self._waiting.popitem(last=False)
            self._open.discard(longest)
            self._closed.note(most=self._most)
            # What it has not read of its last response is lost.
            longest.transport.abort()

    def waits(self, connection: "ClientConnection") -> None:
        """Marks the connection as waiting for its client. Keeps its position if it already waits."""
        if connection in self._open:
            self._waiting.setdefault(connection)

    def answers(self, connection: "ClientConnection") -> None:
        """Marks the connection as being served: a complete request has arrived."""
        self._waiting.pop(connection, None)

    def lost(self, connection: "ClientConnection") -> None:
        self._open.discard(connection)
        self._waiting.pop(connection, None)


class ClientConnection(H11Protocol):
    """uvicorn's protocol, with a count of connections and a time limit for requests."""

    def __init__(self, connections: Connections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.conn: HeadParser = HeadParser()
        self._all = connections
        self._half_closed = asyncio.Event()
        # uvicorn gives each request a copy.
        self.app_state = {**self.app_state, HALF_CLOSED: self._half_closed}
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
            # The start of the next request, or the rest of a body that no route read.
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keeps the connection for the response, if a whole request has arrived."""
        self._half_closed.set()
        return not self._look() and not self.cycle.more_body

    def send_400_response(self, msg: str) -> None:
        """Responds to a request that is not valid HTTP or too large, and closes the connection. uvicorn logs a line first."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self.transport.write(_last_response(self.conn.fault or _NO_REQUEST))
        self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._look() and self._half_closed.is_set():
            self.transport.close()

    def _look(self) -> bool:
        """Whether no request is open: none has arrived, or the last response is complete."""
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
            self.transport.write(_last_response(_TOO_LATE))
        self.transport.close()


_TOO_LATE = ProblemError(Kind.REQUEST_TOO_SLOW, f"its head within {HEAD_SECONDS:g} s")
_NO_REQUEST = ProblemError(Kind.BAD_REQUEST, "it is not a valid HTTP/1.1 request")


def _last_response(problem: ProblemError) -> bytes:
    answer = respond(problem)
    first = f"HTTP/1.1 {answer.status_code} {HTTPStatus(answer.status_code).phrase}\r\n".encode()
    headers = b"".join(name + b": " + value + b"\r\n" for name, value in answer.raw_headers)
    return first + headers + b"connection: close\r\n\r\n" + bytes(answer.body)
