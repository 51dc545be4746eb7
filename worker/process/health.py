"""Health over HTTP: /healthz (live) and /readyz (ready).

Live means that the event loop runs, that polls return, even with an error, and that the pool gets answers if the heartbeat does.
Redis, Postgres and SQS are never part of it: otherwise one outage would restart every worker of the fleet. Ready means that Redis
and Postgres respond as well.
"""

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from aiohttp import web

from turnstile.errors import AddressUnusableError
from turnstile.telemetry.own_log import log

ACCEPTED_AT_ONCE = 1
"""asyncio accepts as many connections at a time as its backlog is long. Without a free file descriptor it would log as many
errors, once a second."""
BACKLOG = 128
"""Connections that wait in the kernel until they are accepted."""


async def serve_health(
    live: Callable[[], Mapping[str, bool]], ready: Callable[[], Awaitable[Mapping[str, bool]]], port: int
) -> web.AppRunner:
    """Serves both checks on `port` of all interfaces (0: a free port), until the runner's `cleanup`.

    Raises AddressUnusableError.
    """

    async def answer_live(_: web.Request) -> web.Response:
        return _response(live())

    async def answer_ready(_: web.Request) -> web.Response:
        return _response({**live(), **await ready()})

    listening = _listen(port)
    # A child that a handler forks would keep the port after the worker's end.
    os.register_at_fork(after_in_child=listening.close)
    app = web.Application()
    app.add_routes([web.get("/healthz", answer_live), web.get("/readyz", answer_ready)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.SockSite(runner, listening, backlog=ACCEPTED_AT_ONCE).start()
    listening.listen(BACKLOG)
    log.info("health.listening", port=listening.getsockname()[1])
    return runner


def _listen(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6: two sockets would get two different ports for port 0."""
    if socket.has_dualstack_ipv6():
        with suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    try:
        return socket.create_server(("", port))
    except OSError as error:
        raise AddressUnusableError("", port, error) from error


def _response(checks: Mapping[str, bool]) -> web.Response:
    ok = all(checks.values())
    return web.json_response({"ok": ok, "checks": dict(checks)}, status=200 if ok else 503)
