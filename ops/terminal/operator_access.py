"""What an operator's command starts with: settings, a log that keeps quiet, and a database that says why it is away."""

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
    """The settings, for a command that a person waits for. Warnings of the libraries go to standard error."""
    settings = load(**overrides)
    if "TURNSTILE_LOG_LEVEL" not in os.environ:
        settings = settings.model_copy(update={"log_level": "warning"})
    logs.configure(settings)
    # It reports every attempt of its own to connect; what the person needs is the one reason below.
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)
    return settings


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Does it to its end. Ctrl-C cancels it, lets it tidy up, and then is raised."""
    return asyncio.run(work)


@asynccontextmanager
async def operator_database(settings: Settings, *, pinned: bool = False) -> "AsyncIterator[Database]":
    """A small pool; `pinned` as the workers have it, for statements that must go by an index whatever the statistics say.

    Raises DatabaseUnavailableError at once, with the server's own reason, if there is no way in.
    """
    import psycopg

    from turnstile.backends.postgres.certificate import certificate_refused
    from turnstile.backends.postgres.database import Database, conninfo

    # The pool retries in the background and in the end knows only that time is up.
    try:
        probe = await psycopg.AsyncConnection.connect(conninfo(settings.database_url, APPLICATION))
        await probe.close()
    except psycopg.Error as error:
        refused = certificate_refused("DATABASE_URL", error)
        raise refused or database_away(settings, error) from error
    async with Database(settings.database_url, APPLICATION, size=2, pinned=pinned) as database:
        yield database


def database_away(settings: Settings, error: Exception) -> DatabaseUnavailableError:
    """The server's own reason, and whether the address was only ours by default."""
    reason = (str(error).splitlines() or [""])[0]
    if "database_url" not in settings.model_fields_set:
        reason += f"; DATABASE_URL is not set: {SET_BY_LOCAL_ENV}"
    return DatabaseUnavailableError(reason)


@asynccontextmanager
async def cancel_hints(settings: Settings) -> "AsyncIterator[CancelHints]":
    """For whoever has just cancelled something. Connects only if there is somebody to tell."""
    from turnstile.config.redis_clients import RedisClients
    from turnstile.streaming.cancel_signals import CancelHints

    redis = RedisClients.open(settings)
    try:
        yield CancelHints(settings, redis)
    finally:
        await redis.close()
