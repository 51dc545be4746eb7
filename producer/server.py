"""The HTTP server: its sockets, start and shutdown."""

import asyncio
import errno
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socket import AI_PASSIVE, IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, create_server, getaddrinfo, socket
from typing import Any, cast

import structlog
import uvicorn

from turnstile.errors import AddressUnusableError
from turnstile.producer.http.accept import accept_connections

READER_SECONDS = 60.0
"""After so long without progress, the kernel drops a connection whose client does not read, or has vanished without closing it.
The heartbeats of event streams make a vanished client noticeable."""

log = structlog.get_logger("turnstile.api")


def listen(host: str, port: int) -> list[socket]:
    """One listening socket for each address of the host. Created here, because uvicorn exits the process on an error.

    Raises AddressUnusableError.
    """
    try:
        sockets = _listen_on_each(getaddrinfo(host, port, type=SOCK_STREAM, flags=AI_PASSIVE))
    except OSError as error:
        raise AddressUnusableError(host, port, error) from error
    for listening in sockets:
        # Accepted connections inherit the option. asyncio sets it only on sockets that name their protocol, and `create_server`
        # names none. Without it, the body of a response waits for the client's delayed ACK of the head, up to 40 ms.
        listening.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
        _drop_stuck_readers(listening)
    return sockets


def _listen_on_each(found: Iterable[tuple[Any, ...]]) -> list[socket]:
    sockets: list[socket] = []
    absent: OSError | None = None
    for family, address in dict.fromkeys((one[0], one[4]) for one in found):
        try:
            sockets.append(create_server(address, family=family))
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                raise
            # `localhost` may resolve to ::1 on a host without IPv6.
            absent = error
    if absent is not None and not sockets:
        raise absent
    return sockets


def _drop_stuck_readers(listening: socket) -> None:
    # Without this timeout, a client that reads nothing would keep its connection, and an event stream its place, for ever.
    # Accepted connections inherit the option; the application is notified of a disconnect. Linux only.
    if sys.platform == "linux":
        from socket import TCP_USER_TIMEOUT

        listening.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, int(READER_SECONDS * 1000))


class Server(uvicorn.Server):
    """uvicorn's server. Accepts connections with `producer.http.accept`, and ends watches before it shuts down."""

    def __init__(self, config: uvicorn.Config, end_watches: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_watches = end_watches
        self._accepting: list[asyncio.Task[None]] = []

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        # Before the wait for open responses: event streams would otherwise stay open until their turns end.
        self._end_watches()
        for accepting in self._accepting:
            accepting.cancel()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket] | None = None) -> None:
        # No sockets for uvicorn: connections are accepted here.
        await super().startup([])
        for listening in sockets or []:
            listening.listen(self.config.backlog)
            accepting = asyncio.create_task(accept_connections(listening, self._make_connection))
            accepting.add_done_callback(self._end_with)
            self._accepting.append(accepting)
            # The actual port, if port 0 was requested.
            log.info("api.listening", host=self.config.host, port=listening.getsockname()[1])

    def _make_connection(self) -> asyncio.Protocol:
        connection: asyncio.Protocol = cast("Any", self.config.http_protocol_class)(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=asyncio.get_running_loop(),
        )
        return connection

    def _end_with(self, accepting: asyncio.Task[None]) -> None:
        # A server that accepts no connections must exit.
        if not accepting.cancelled():
            log.error("api.accepting_ended", error=type(accepting.exception()).__name__)
            self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own version raises the signal again after an orderly shutdown, which then looks like a kill.
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
        log.info("api.stopped")
