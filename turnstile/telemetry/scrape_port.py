"""The metrics over HTTP, in the formats of Prometheus, on a port of their own: Turnstile's, and those of the handler's module.

On a thread, not on the process's event loop: while a handler blocks the loop, the metrics say so.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from wsgiref.simple_server import WSGIServer

import prometheus_client
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry, RestrictedRegistry

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


def _start(port: int) -> WSGIServer:
    served = _Served(REGISTRY, prometheus_client.REGISTRY)
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return prometheus_client.start_http_server(port, "::", served)[0]
    try:
        return prometheus_client.start_http_server(port, "0.0.0.0", served)[0]  # noqa: S104 - scraped from outside
    except OSError as error:
        raise AddressUnusableError("", port, error) from error
