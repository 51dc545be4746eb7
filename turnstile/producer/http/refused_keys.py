"""Records the requests without a valid credential: a log line at once, and once a minute an audit event for each address."""

import asyncio
from collections.abc import Mapping

import psycopg
from starlette.types import Scope

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record_alone
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.refusal_window import RefusalWindow, name_client
from turnstile.telemetry.own_log import log

WINDOW_SECONDS = 60.0


class RefusedKeys:
    """The refusals of a process. For the event loop."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lines = Tally("api.unauthorized")
        self._window = RefusalWindow()
        self._writing: asyncio.Task[None] | None = None

    def note(self, scope: Scope, *, reason: str, key_id: str | None = None) -> None:
        """Counts the refused request of this scope. The reason is one of a few words.

        `key_id` is that of a key that was valid once.
        """
        peer = scope.get("client")
        client = name_client(peer[0] if peer else None, scope["headers"])
        self._lines.note(client=client, reason=reason, key_id=key_id)
        self._window.note(client, reason)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_later())

    async def close(self) -> None:
        """Records what is left, if Postgres answers."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        await self._write()

    async def _write_later(self) -> None:
        while self._window.counts:
            await asyncio.sleep(WINDOW_SECONDS)
            await self._write()
        self._writing = None

    async def _write(self) -> None:
        window, self._window = self._window, RefusalWindow()
        try:
            await record_alone(self._database, *map(_event, window.counts))
        except (DatabaseUnavailableError, psycopg.Error) as error:
            log.warning("audit.not_recorded", error=str(error))
            self._window.add(window)
        except asyncio.CancelledError:
            self._window.add(window)
            raise


def _event(counted: tuple[str, Mapping[str, int]]) -> AuditEvent:
    client, counts = counted
    return AuditEvent(kind=AuditKind.KEY_REFUSED, actor=client, subject="the API", counts=counts)
