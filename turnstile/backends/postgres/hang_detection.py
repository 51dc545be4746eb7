"""Connections that a silent server does not keep waiting for ever.

A frozen server, a paused pooler, a proxy that hangs: what is sent is taken, so neither keepalives nor `tcp_user_timeout` see
anything wrong, and `statement_timeout` is the server's to keep. After `patience_seconds` without an answer the line is shut down
from this end. Whoever waits is told that the connection broke, which everything above knows how to live with; a cancellation
would ask the silent server first.
"""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
import structlog
from psycopg.rows import DictRow

ANSWER_SECONDS = 2.0
"""For an answer to arrive, once the server's own time-outs have brought it about."""

log = structlog.get_logger("turnstile.database")


class BoundedAsyncConnection(psycopg.AsyncConnection[DictRow]):
    """Waits for each answer for `patience_seconds` at most; then the call fails with OperationalError, like any broken one."""

    patience_seconds = 30.0
    _waits_until: float | None = None
    _watch: asyncio.TimerHandle | None = None

    async def wait(self, *asked: Any, **how: Any) -> Any:
        """As psycopg's, which each round trip goes through."""
        loop = asyncio.get_running_loop()
        self._waits_until = until = loop.time() + self.patience_seconds
        # One timer for many waits: a turn has several, and each would set one that is taken back a millisecond later.
        if self._watch is None or self._watch.when() > until:
            self._look_at(until)
        try:
            return await super().wait(*asked, **how)
        finally:
            self._waits_until = None

    def _look_at(self, when: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self) -> None:
        looked_at, self._watch = self._watch, None
        until = self._waits_until
        if until is None or looked_at is None:
            return
        if until > looked_at.when():
            self._look_at(until)
        else:
            _hang_up(self, self.patience_seconds)


def _hang_up(connection: BoundedAsyncConnection, seconds: float) -> None:
    # The answer, or the end of the connection, may come in this very moment.
    with suppress(OSError, psycopg.Error):
        log.warning(
            "database.silent", seconds=seconds, application=connection.info.get_parameters().get("application_name")
        )
        # On a second handle: libpq's own stays open until libpq closes it, and so does its number.
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
