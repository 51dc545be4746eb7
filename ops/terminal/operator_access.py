"""Setup of operator commands: settings, a quiet log, and a database connection with clear errors."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from turnstile.config import logs
from turnstile.config.load_settings import load
from turnstile.config.settings import Settings
from turnstile.errors import SET_BY_LOCAL_ENV, DatabaseUnavailableError

if TYPE_CHECKING:
    from turnstile.backends.postgres.database import Database
    from turnstile.streaming.cancel_signals import CancelHints

APPLICATION = "turnstile-cli"

Result = TypeVar("Result")


def load_settings(**overrides: Any) -> Settings:
    """The settings of an operator command, with the log level `warning` by default. Warnings go to standard error."""
    settings = load(**overrides)
    if "TURNSTILE_LOG_LEVEL" not in os.environ:
        settings = settings.model_copy(update={"log_level": "warning"})
    logs.configure(settings)
    # The pool logs each failed attempt to connect; the operator needs only the one reason below.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    return settings


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Runs the coroutine. Ctrl-C cancels it, waits for its cleanup, and then raises KeyboardInterrupt."""
    return asyncio.run(work)


@asynccontextmanager
async def operator_database(settings: Settings, *, pinned: bool = False) -> "AsyncIterator[Database]":
    """A small pool. `pinned` as in the workers: for statements that must use an index, whatever the statistics are.

    Raises DatabaseUnavailableError at once, with the server's own reason, if the connection fails.
    """
    import psycopg

    from turnstile.backends.postgres.certificate import certificate_refused
    from turnstile.backends.postgres.database import Database, conninfo

    # A probe, because the pool retries in the background and in the end reports only a timeout.
    try:
        probe = await psycopg.AsyncConnection.connect(conninfo(settings.database_url, APPLICATION))
        await probe.close()
    except psycopg.Error as error:
        refused = certificate_refused("DATABASE_URL", error)
        raise refused or database_away(settings, error) from error
    async with Database(settings.database_url, APPLICATION, size=2, pinned=pinned) as database:
        yield database


def database_away(settings: Settings, error: Exception) -> DatabaseUnavailableError:
    """The error with the server's own reason, and a note if DATABASE_URL is not set."""
    reason = (str(error).splitlines() or [""])[0]
    if "database_url" not in settings.model_fields_set:
        reason += f"; DATABASE_URL is not set: {SET_BY_LOCAL_ENV}"
    return DatabaseUnavailableError(reason)


@asynccontextmanager
async def cancel_hints(settings: Settings) -> "AsyncIterator[CancelHints]":
    """The hints to send after a cancel. Connects to Redis only when a hint is sent."""
    from turnstile.config.redis_clients import RedisClients
    from turnstile.streaming.cancel_signals import CancelHints

    redis = RedisClients.open(settings)
    try:
        yield CancelHints(settings, redis)
    finally:
        await redis.close()
