"""The HTTP server: its sockets, start and shutdown."""

import asyncio
import errno
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socket import AI_PASSIVE, IPPROTO_TCP, SOCK_STREAM, TCP_NODELAY, create_server, getaddrinfo, socket
from typing import Any

import uvicorn

from turnstile.errors import AddressUnusableError
from turnstile.process.stop_signals import STOP_SIGNALS, on_stop_signal
from turnstile.producer.http.log_throttle import LibraryWarnings, Tally
from turnstile.telemetry.own_log import log

READER_SECONDS = 60.0
"""After this long without progress, the kernel drops a connection whose client does not read, or has vanished without
closing it. The heartbeats of event streams make a vanished client noticeable."""

ACCEPTED_AT_ONCE = 4
"""Connections that asyncio accepts in one step of the event loop. They are counted two steps later, so a flood exceeds
the limit of connections by at most three times as many for each socket. uvicorn's default is 2,048."""
BACKLOG = 2048
"""Connections that wait in the kernel until they are accepted."""


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
    """uvicorn's server. Accepts connections a few at a time, and ends watches before it shuts down."""

    def __init__(self, config: uvicorn.Config, end_watches: Callable[[], None]) -> None:
        # asyncio takes its number of accepts from the backlog.
        config.backlog = ACCEPTED_AT_ONCE
        super().__init__(config)
        self._end_watches = end_watches
        self._accept_failed = Tally("api.accept_failed")
        # About malformed requests and upgrades.
        self._warnings = LibraryWarnings("api.http_warning")

    async def startup(self, sockets: list[socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._note_error)
        logging.getLogger("uvicorn.error").addFilter(self._warnings)
        await super().startup(sockets)
        for listening in sockets or []:
            listening.listen(BACKLOG)
            # The actual port, if port 0 was requested.
            log.info("api.listening", host=self.config.host, port=listening.getsockname()[1])

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        # Before the wait for open responses: event streams would otherwise stay open until their turns end.
        self._end_watches()
        for accepting in self.servers:
            accepting.close()
        # From Python 3.12 on, uvicorn would wait for their connections also after a second SIGINT.
        self.servers = []
        await super().shutdown(sockets)
        logging.getLogger("uvicorn.error").removeFilter(self._warnings)

    def _note_error(self, loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        # No file descriptor or memory is left: asyncio accepts again after a second, and connections wait in the kernel. It
        # reports each accept that failed.
        error = about.get("exception")
        if "socket" in about and isinstance(error, OSError):
            self._accept_failed.note(error=str(error))
        else:
            loop.default_exception_handler(about)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own version raises the signal again after an orderly shutdown, which then looks like a kill.
        on_stop_signal(lambda number: self.handle_exit(number, None))
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                asyncio.get_running_loop().remove_signal_handler(number)
        log.info("api.stopped")
