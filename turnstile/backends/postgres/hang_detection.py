"""Connections with a limit on the wait for a silent server.

A frozen server, a paused pooler or a hanging proxy still accepts data. Keepalives and `tcp_user_timeout` see no fault then, and
only the server enforces `statement_timeout`. After `patience_seconds` without a response the client shuts down the socket. The
caller gets the error of a broken connection, which all callers handle. A cancellation would first wait for the silent server.
"""

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.rows import DictRow

from turnstile.telemetry.own_log import log

ANSWER_SECONDS = 2.0
"""Extra time for a response to arrive after the server's own timeouts."""


class BoundedAsyncConnection(psycopg.AsyncConnection[DictRow]):
    """Waits `patience_seconds` at most for each response; then the call fails with OperationalError, as if disconnected."""

    patience_seconds = 30.0

    async def wait(self, *asked: Any, **how: Any) -> Any:
        """Like psycopg's `wait`, which every round trip uses, with the limit."""
        watch = asyncio.get_running_loop().call_later(self.patience_seconds, _hang_up, self)
        try:
            return await super().wait(*asked, **how)
        finally:
            watch.cancel()


def _hang_up(connection: BoundedAsyncConnection) -> None:
    # The response, or the end of the connection, may arrive at the same moment.
    with suppress(OSError, psycopg.Error):
        application = connection.info.get_parameters().get("application_name")
        log.warning("database.silent", seconds=connection.patience_seconds, application=application)
        # On a duplicate descriptor: libpq's own must stay open until libpq closes it, or its number could be reused.
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)
