"""Accepts connections a few at a time, and pauses if the process has no file descriptors left.

asyncio's own server is not used: it accepts up to 2,048 connections in one step, before any of them can be counted or closed. At
the limit of open files, it logs a line for each of them, ten thousand a second.
"""

import asyncio
from collections.abc import Callable
from socket import socket
from typing import NoReturn

from turnstile.producer.http.log_throttle import Tally

AT_ONCE = 16
PAUSE_SECONDS = 0.1


async def accept_connections(listening: socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> NoReturn:
    """Accepts connections of the `listening` socket and gives each a protocol. Runs until cancelled."""
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
            # No file descriptor or memory is left. Connections in the kernel's queue are accepted once others have ended.
            failed.note(error=str(error))
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        made = (loop.connect_accepted_socket(make_protocol, one) for one in accepted)
        # A client that has already disconnected must not affect the others.
        await asyncio.gather(*made, return_exceptions=True)


def _accept_more(listening: socket) -> list[socket]:
    accepted: list[socket] = []
    try:
        while len(accepted) < AT_ONCE - 1:
            connection, _ = listening.accept()
            connection.setblocking(False)
            accepted.append(connection)
    except OSError:
        # No more connections wait, or the next accept raises the same error.
        pass
    return accepted
