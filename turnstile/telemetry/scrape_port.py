"""The metrics over HTTP, in the formats of Prometheus, on a port of their own.

On a thread, not on the process's event loop: while a handler blocks the loop, the metrics say so.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from wsgiref.simple_server import WSGIServer

import prometheus_client

from turnstile.errors import AddressUnusableError
from turnstile.telemetry.instruments import REGISTRY
from turnstile.telemetry.own_log import log


@contextmanager
def serving_metrics(port: int) -> Iterator[int]:
    """Serves the metrics on `port` of all interfaces (0: a free port) during the block, which gets the port.

    Raises AddressUnusableError.
    """
    server = _start(port)
    # A child that a handler forks would keep the port after the process's end.
    os.register_at_fork(after_in_child=server.socket.close)
    log.info("metrics.listening", port=server.server_port)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def _start(port: int) -> WSGIServer:
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return prometheus_client.start_http_server(port, "::", REGISTRY)[0]
    try:
        return prometheus_client.start_http_server(port, "0.0.0.0", REGISTRY)[0]  # noqa: S104 - scraped from outside
    except OSError as error:
        raise AddressUnusableError("", port, error) from error
