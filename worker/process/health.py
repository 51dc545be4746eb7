"""Health over HTTP: /healthz (live) and /readyz (ready).

Live means that the event loop runs and polls return, even with an error. Redis, Postgres and SQS are never part of it: otherwise
one outage would restart every worker of the fleet. Ready means that Redis and Postgres respond as well.
"""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import structlog

from turnstile.errors import AddressUnusableError

REQUEST_SECONDS = 5.0
MAX_REQUEST_BYTES = 8192

log = structlog.get_logger("turnstile.health")


@dataclass(frozen=True, slots=True)
class Health:
    """The checks behind the two endpoints."""

    live: Callable[[], Mapping[str, bool]]
    ready: Callable[[], Awaitable[Mapping[str, bool]]]


async def serve_health(health: Health, port: int) -> asyncio.Server:
    """Serves on `port` of all interfaces (0: a free port), until the server is closed.

    Raises AddressUnusableError.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].partition(b"?")[0]
                status, checks = await _look(health, path)
                writer.write(_response(status, checks))
                await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, IndexError, OSError):
            return
        finally:
            writer.close()

    server = await asyncio.start_server(answer, sock=_listen(port), limit=MAX_REQUEST_BYTES)
    log.info("health.listening", port=server.sockets[0].getsockname()[1])
    return server


def _listen(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6: two sockets would get two different ports for port 0."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    try:
        return socket.create_server(("", port))
    except OSError as error:
        raise AddressUnusableError("", port, error) from error


async def _look(health: Health, path: bytes) -> tuple[int, Mapping[str, bool]]:
    match path:
        case b"/healthz":
            checks = health.live()
        case b"/readyz":
            checks = {**health.live(), **await health.ready()}
        case _:
            return 404, {}
    return (200 if all(checks.values()) else 503), checks


def _response(status: int, checks: Mapping[str, bool]) -> bytes:
    reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[status]
    body = json.dumps({"ok": status == 200, "checks": dict(checks)}).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
