"""Health over HTTP: /healthz (live) and /readyz (ready).

Live means that the event loop runs, that polls return, even with an error, and that the pool gets answers if the heartbeat does.
Redis, Postgres and SQS are never part of it: otherwise one outage would restart every worker of the fleet. Ready means that Redis
and Postgres respond as well, and that the tables are those of this program.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from aiohttp import web

from turnstile.telemetry.own_log import log
from turnstile.telemetry.side_port import LONGEST_SECONDS, MOST_CONNECTIONS, listen

ACCEPTED_AT_ONCE = 1
"""asyncio accepts as many connections at a time as its backlog is long. Without a free file descriptor it would log as many
errors, once a second."""
BACKLOG = 128
"""Connections that wait in the kernel until they are accepted."""


class HealthPort:
    """Both checks, until `cleanup`."""

    def __init__(self, runner: web.AppRunner, accepting: asyncio.Server) -> None:
        self._runner = runner
        self._accepting = accepting
        self.port: int = accepting.sockets[0].getsockname()[1]

    async def cleanup(self) -> None:
        """Closes the port and its connections."""
        self._accepting.close()
        await self._runner.cleanup()


Checks = Mapping[str, bool | str]
"""The result of each check: True if all is well, otherwise a text with the reason if there is one."""


async def serve_health(
    live: Callable[[], Checks], ready: Callable[[], Awaitable[Checks]], host: str, port: int
) -> HealthPort:
    """Serves both checks on `port` (0: a free port) of `host` (empty: all interfaces).

    Raises AddressUnusableError.
    """

    async def answer_live(_: web.Request) -> web.Response:
        return _response(live())

    async def answer_ready(_: web.Request) -> web.Response:
        return _response({**live(), **await ready()})

    listening = listen(host, port)
    # A child that a handler forks would keep the port after the worker's end.
    os.register_at_fork(after_in_child=listening.close)
    app = web.Application()
    app.add_routes([web.get("/healthz", answer_live), web.get("/readyz", answer_ready)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    protocol = _make_bounded(cast("Callable[[], asyncio.Protocol]", runner.server))
    accepting = await asyncio.get_running_loop().create_server(protocol, sock=listening, backlog=ACCEPTED_AT_ONCE)
    listening.listen(BACKLOG)
    opened = HealthPort(runner, accepting)
    log.info("health.listening", port=opened.port)
    return opened


def _make_bounded(make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
    """Like `make`, with MOST_CONNECTIONS at a time, which last LONGEST_SECONDS."""
    connections: dict[_Connection, None] = {}
    return lambda: _Connection(make(), connections)


class _Connection(asyncio.Protocol):
    """aiohttp's protocol, which sets no time for the first request."""

    def __init__(self, inner: asyncio.Protocol, connections: "dict[_Connection, None]") -> None:
        self._inner = inner
        self._all = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._end = asyncio.get_running_loop().call_later(LONGEST_SECONDS, transport.close)
        self._all[self] = None
        if len(self._all) > MOST_CONNECTIONS:
            oldest = next(iter(self._all))
            del self._all[oldest]
            oldest.close()
        self._inner.connection_made(transport)

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._all.pop(self, None)
        self._end.cancel()
        self._inner.connection_lost(error)


def _response(checks: Checks) -> web.Response:
    ok = all(found is True for found in checks.values())
    return web.json_response({"ok": ok, "checks": dict(checks)}, status=200 if ok else 503)
