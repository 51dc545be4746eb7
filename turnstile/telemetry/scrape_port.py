"""The metrics over HTTP, in the formats of Prometheus, on a port of their own: Turnstile's, and those of the handler's module.

On threads, not on the process's event loop: while a handler blocks the loop, the metrics say so.
"""

import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import prometheus_client
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry, RestrictedRegistry

from turnstile.telemetry.instruments import REGISTRY
from turnstile.telemetry.own_log import log
from turnstile.telemetry.side_port import LONGEST_SECONDS, MOST_CONNECTIONS, listen

PAUSE_SECONDS = 0.1
"""Between two scrapes. With all connections in use, one waits for three seconds: Prometheus waits for ten."""


@contextmanager
def serving_metrics(host: str, port: int) -> Iterator[int]:
    """Serves the metrics on `port` (0: a free port) of `host` (empty: all interfaces) during the block, which gets the port.

    Raises AddressUnusableError.
    """
    server = _Server(listen(host, port))
    # A child that a handler forks would keep the port after the process's end.
    os.register_at_fork(after_in_child=server.socket.close)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    log.info("metrics.listening", port=server.server_port)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class _Request(WSGIRequestHandler):
    timeout = LONGEST_SECONDS
    """For each read."""

    def log_message(self, *_: Any) -> None:
        """Logs nothing: a scrape is not an event."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection, and MOST_CONNECTIONS at a time."""

    daemon_threads = True

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(listening.getsockname(), _Request, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "", listening.getsockname()[1]
        self.setup_environ()
        self.set_app(_Paced(prometheus_client.make_wsgi_app(_Served(REGISTRY, prometheus_client.REGISTRY))))
        self._open: dict[Any, None] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            if len(self._open) > MOST_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                # Its thread reads the end, and closes it.
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: Any) -> None:
        """Logs nothing: the client has disconnected, or was too slow. The default would print a stack."""


class _Paced:
    """Answers one scrape at a time, and the next PAUSE_SECONDS later: it needs no key, and takes time from the process's work."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._turn = threading.Lock()
        self._free_at = 0.0

    def __call__(self, environ: Any, start_response: Any) -> list[bytes]:
        with self._turn:
            time.sleep(max(0.0, self._free_at - time.monotonic()))
            try:
                return [*self._app(environ, start_response)]
            finally:
                self._free_at = time.monotonic() + PAUSE_SECONDS


Registry = CollectorRegistry | RestrictedRegistry


class _Served(CollectorRegistry):
    """Both registries as one: Turnstile's, and prometheus_client's default one, where a handler's module has its metrics."""

    def __init__(self, ours: Registry, theirs: Registry) -> None:
        super().__init__()
        self._ours = ours
        self._theirs = theirs

    def collect(self) -> Iterator[Metric]:
        taken = set()
        for family in self._ours.collect():
            taken.add(family.name)
            yield family
        # A name that is served twice makes Prometheus refuse the whole scrape. Both have the numbers of the process.
        yield from (family for family in self._collect_theirs() if not {family.name, _stem(family)} & taken)

    def _collect_theirs(self) -> Iterable[Metric]:
        try:
            return list(self._theirs.collect())
        except Exception as error:
            # A defect of a collector that is not ours must not hide our metrics.
            log.warning("metrics.not_collected", error=f"{type(error).__name__}: {error}")
            return []

    def restricted_registry(self, names: Iterable[str]) -> Any:
        """What the parameter `name[]` of a scrape asks for."""
        wanted = list(names)
        return _Served(REGISTRY.restricted_registry(wanted), prometheus_client.REGISTRY.restricted_registry(wanted))


def _stem(family: Metric) -> str:
    # A gauge `x_total` would meet the sample of a counter `x`.
    return family.name.removesuffix("_total")
