"""The ports of the stack: on loopback only, and outside the range for outgoing connections."""

import random
import socket

LOOPBACK = "127.0.0.1"

# Below the range that kernels use for the source ports of outgoing connections. While a service is stopped, any client can take a
# port inside that range, even the service's own client: if it keeps reconnecting to the closed port on loopback, it finally
# connects to itself and occupies the port.
_FIRST, _LAST = 20000, 31999


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: connections of the last run in TIME_WAIT do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def choose_free() -> int:
    """A port that is free now."""
    # SystemRandom, because test tools seed the global generator: every run would then try the same ports.
    dice = random.SystemRandom()
    while True:
        port = dice.randint(_FIRST, _LAST)
        if is_free(port):
            return port
