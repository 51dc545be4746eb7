"""Where the stack listens: loopback only, at ports that are free and stay free."""

import random
import socket
from dataclasses import dataclass

LOOPBACK = "127.0.0.1"

# Below the range from which kernels take the source ports of outgoing connections. A port inside it can be taken by any
# client while its service is stopped, even by that service's own clients: one that keeps reconnecting to a closed
# loopback port inside the range in the end connects to itself and then holds the port.
_FIRST, _LAST = 20000, 31999


@dataclass(frozen=True)
class Ports:
    """TCP ports that the caller wants; None leaves the choice to the stack."""

    postgres: int | None = None
    redis: int | None = None
    sqs: int | None = None


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do themselves: connections of the last run that linger in TIME_WAIT do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose_free() -> int:
    """A port that is free now; it may be gone when the service starts, so whoever starts it must be ready to move."""
    # SystemRandom, because test tools seed the global generator: every run would then walk the same row of ports.
    dice = random.SystemRandom()
    while True:
        port = dice.randint(_FIRST, _LAST)
        if is_free(port):
            return port
