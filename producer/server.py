"""The HTTP server: its sockets, start and shutdown."""

import asyncio
import errno
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import AF_INET6, AI_PASSIVE, IPPROTO_TCP, SOCK_STREAM, create_server, getaddrinfo, socket
from typing import Any, cast

import structlog
import uvicorn

from turnstile.errors import AddressUnusableError
from turnstile.producer.http.accept import accept_connections
from turnstile.producer.routes import stream

log = structlog.get_logger("turnstile.api")


def listen(host: str, port: int) -> list[socket]:
    """One listening socket for each address of the host. Created here, because uvicorn exits the process on an error.

    Raises AddressUnusableError.
    """
    sockets: list[socket] = []
    refused: OSError | None = None
    try:
        found = getaddrinfo(host, port, type=SOCK_STREAM, flags=AI_PASSIVE)
    except OSError as error:
        raise AddressUnusableError(host, port, error) from error
    for family, address in dict.fromkeys((one[0], one[4]) for one in found):
        try:
            listening = create_server(address[:2] if family != AF_INET6 else address, family=family)
            _give_up_stuck_readers(listening)
            sockets.append(listening)
        except OSError as error:
            refused = error
            # `localhost` may resolve to ::1 on a host without IPv6: ignored. A port that is in use is an error.
            if error.errno in {errno.EADDRINUSE, errno.EACCES}:
                break
    if refused is not None and (not sockets or refused.errno in {errno.EADDRINUSE, errno.EACCES}):
        for listening in sockets:
            listening.close()
        raise AddressUnusableError(host, port, refused) from refused
    return sockets


def _give_up_stuck_readers(listening: socket) -> None:
    # A server that closes a connection sends its buffered data first. Without this timeout, a client that reads nothing would
    # keep connection and response for ever, and block every shutdown. Accepted connections inherit the option. Linux only.
    if sys.platform == "linux":
        from socket import TCP_USER_TIMEOUT

        listening.setsockopt(IPPROTO_TCP, TCP_USER_TIMEOUT, int(stream.PATIENCE_SECONDS * 1000))


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
