"""What an operator's command works with: settings, a quiet log, and connections with clear errors.

The clients of SQS and Redis are imported where a command first uses them: their libraries take as long as everything else here.
"""

import asyncio
import getpass
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, TypeVar

import psycopg

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record_alone
from turnstile.backends.postgres.certificate import certificate_refused
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.server_version import server_refused
from turnstile.backends.postgres.startup_options import options_refused
from turnstile.backends.postgres.table_version import schema_refused
from turnstile.config.config_file import load
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.errors import (
    SET_BY_LOCAL_ENV,
    DatabaseUnavailableError,
    QueueUnavailableError,
    ServerTooOldError,
    TablesUnfitError,
    UnknownQueueError,
)
from turnstile.ops.terminal.output import say
from turnstile.process import logs
from turnstile.turn.envelope import OutgoingMessage

if TYPE_CHECKING:
    from turnstile.message_queue import MessageQueues
    from turnstile.streaming.cancel_hints import CancelHints

APPLICATION = "turnstile-cli"

Given = ParamSpec("Given")
Result = TypeVar("Result")


def load_settings(log_level: Literal["warning", "critical"] = "warning") -> Settings:
    """The settings of an operator command. `log_level` applies unless the settings name one; the log is on standard error."""
    settings = load()
    if "log_level" not in settings.model_fields_set:
        settings = settings.model_copy(update={"log_level": log_level})
    logs.configure(settings)
    # The pool logs each failed attempt to connect; the operator needs only the one reason below.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    return settings


class Operator:
    """The settings and the database of a command, and SQS and Redis once the command uses them."""

    def __init__(self, settings: Settings, database: Database, closing: AsyncExitStack) -> None:
        self.settings = settings
        self.database = database
        self._closing = closing

    @property
    def name(self) -> str:
        """Who runs the command, for records."""
        return operator_name(self.settings)

    @cached_property
    def queues(self) -> "MessageQueues":
        """SQS. Raises RegionMissingError."""
        from turnstile.message_queue import MessageQueues

        queues = MessageQueues(self.settings)
        self._closing.push_async_callback(queues.close)
        return queues

    @cached_property
    def hints(self) -> "CancelHints":
        """The hints to send after a cancel."""
        from turnstile.process.redis_clients import RedisClients
        from turnstile.streaming.cancel_hints import CancelHints

        redis = RedisClients.open(self.settings)
        self._closing.push_async_callback(redis.close)
        return CancelHints(self.settings, redis)

    async def audit(
        self,
        kind: AuditKind,
        subject: str,
        *,
        tenant_id: str | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> None:
        """Records what the operator is about to do, where the act itself has no transaction. Raises DatabaseUnavailableError."""
        event = AuditEvent(kind=kind, actor=self.name, subject=subject, tenant_id=tenant_id, counts=counts or {})
        await record_alone(self.database, event)

    async def wake(self, woken: tuple[str, OutgoingMessage] | None) -> None:
        """Sends a wake-up to its queue, if there is one. The relay sends it if SQS is away."""
        if woken is None:
            return
        queue, message = woken
        try:
            await self.queues.send(queue, [message])
        except (QueueUnavailableError, UnknownQueueError):
            say("SQS is away: a relay sends the wake-up")


def operator_name(settings: Settings) -> str:
    """Who runs the command, for records: as the settings name them, or else user@host."""
    if settings.operator:
        return settings.operator
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a user id without an entry in /etc/passwd.
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def operate(
    settings: Settings,
    work: Callable[Concatenate[Operator, Given], Coroutine[Any, Any, Result]],
    *given: Given.args,
    **named: Given.kwargs,
) -> Result:
    """Runs `work` in an event loop. Ctrl-C cancels it, waits for its cleanup, and then raises KeyboardInterrupt."""

    async def run() -> Result:
        async with operator_database(settings) as database, AsyncExitStack() as closing:
            return await work(Operator(settings, database, closing), *given, **named)

    return asyncio.run(run())


@asynccontextmanager
async def operator_database(settings: Settings, *, pinned: bool = False) -> AsyncIterator[Database]:
    """A small pool. `pinned` as in the workers: for statements that must use an index, whatever the statistics are.

    Raises DatabaseUnavailableError at once, with the server's own reason, if the connection fails; or ServerTooOldError,
    or TablesUnfitError for a role that may not use the schema, or SettingsError for the keys of contents.
    """
    contents = read_contents(settings)
    # A probe, because the pool retries in the background and in the end reports only a timeout.
    try:
        probe = await psycopg.AsyncConnection.connect(conninfo(settings.database, APPLICATION))
        old, hidden = server_refused(probe), await schema_refused(probe)
        await probe.close()
    except psycopg.Error as error:
        refused = certificate_refused("DATABASE_URL", error)
        raise refused or database_away(settings, error) from error
    if old is not None:
        raise ServerTooOldError(old)
    if hidden is not None:
        raise TablesUnfitError(hidden)
    async with Database(settings.database, APPLICATION, size=2, pinned=pinned, contents=contents) as database:
        yield database


def database_away(settings: Settings, error: Exception) -> DatabaseUnavailableError:
    """The error with the server's own reason, and a note if DATABASE_URL is not set."""
    reason = (isinstance(error, psycopg.Error) and options_refused(error)) or (str(error).splitlines() or [""])[0]
    if "database_url" not in settings.model_fields_set:
        reason += f"; DATABASE_URL is not set: {SET_BY_LOCAL_ENV}"
    return DatabaseUnavailableError(reason)
