"""Retries over an outage of Postgres, until the call succeeds or the worker gives up."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from turnstile.backends.backoff import ceiling
from turnstile.backends.jitter import CHANCE
from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.telemetry.own_log import log

BASE_SECONDS = 0.05
CAP_SECONDS = 1.0
"""The longest pause between two tries. Short: thousands of turns may wait to settle, and each try is one small statement."""

Result = TypeVar("Result")

RetryWhileDown = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""`retry_while_down`, bound to the event by which the worker gives up."""


async def retry_while_down(call: Callable[[], Awaitable[Result]], *, given_up: asyncio.Event) -> Result:
    """The result of `call`, which must be safe to repeat after an unknown outcome.

    Raises DatabaseUnavailableError if the database is still away after `given_up` is set.
    """
    tries = 0
    while True:
        try:
            return await call()
        except DatabaseUnavailableError as error:
            if given_up.is_set():
                raise
            tries += 1
            if tries == 1:
                log.warning(
                    "database.row_locked" if isinstance(error, RowLockedError) else "database.away", error=str(error)
                )
            wait = ceiling(tries, BASE_SECONDS, CAP_SECONDS) * CHANCE.uniform(0.5, 1)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await given_up.wait()
