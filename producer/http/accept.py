"""Accepting connections: a few at a time, and patiently when there are no file descriptors.

Not asyncio's own server. It accepts up to 2,048 connections in one step, before any of them can be counted or closed, and where a
process may open no more files it logs a line for each of these, ten thousand a second.
"""

import asyncio
from collections.abc import Callable
from socket import socket
from typing import NoReturn

from turnstile.producer.http.log_throttle import Tally

AT_ONCE = 16
PAUSE_SECONDS = 0.1


async def accept_connections(listening: socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> NoReturn:
    """Gives each connection of the `listening` socket a protocol, until it is cancelled."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    failed = Tally("api.accept_failed")
    while True:
        try:
            connection, _ = await loop.sock_accept(listening)
            accepted = [connection, *_accept_more(listening)]
        except ConnectionAbortedError:
            continue
        except OSError as error:
            # No descriptor or memory is left. Connections end, and what waits in the kernel's queue is served then.
            failed.note(error=str(error))
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        made = (loop.connect_accepted_socket(make_protocol, one) for one in accepted)
        # A client that has gone by now is none of the others' concern.
        await asyncio.gather(*made, return_exceptions=True)


def _accept_more(listening: socket) -> list[socket]:
    accepted: list[socket] = []
    try:
        while len(accepted) < AT_ONCE - 1:
            connection, _ = listening.accept()
            connection.setblocking(False)
            accepted.append(connection)
    except OSError:
        # There are no more, or the next attempt says what is wrong.
        pass
    return accepted
