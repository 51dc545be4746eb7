"""What the ports for health and for metrics have in common: their sockets, and their bounds.

They require no key. Without bounds, idle connections would use up the files that the process may open.
"""

import socket
from contextlib import suppress

from turnstile.errors import AddressUnusableError

MOST_CONNECTIONS = 32
"""Connections at a time. One more closes the oldest, so that a probe is answered however many others are idle."""
LONGEST_SECONDS = 10.0
"""How long a connection may keep silent (metrics), or last (health)."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Without a host, of all interfaces, for IPv4 and IPv6. Port 0: a free one.

    Raises AddressUnusableError.
    """
    if not host and socket.has_dualstack_ipv6():
        # One socket for both: two sockets would get two different ports for port 0.
        with suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0] if host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise AddressUnusableError(host, port, error) from error
