"""Riding out an outage of Postgres: what was asked is asked again until it is answered or given up from outside."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from turnstile.backends.backoff import ceiling
from turnstile.errors import DatabaseUnavailableError, RowHeldError

BASE_SECONDS = 0.05
CAP_SECONDS = 1.0
"""Short: thousands of turns may be waiting to settle, and each try is one small statement."""

log = structlog.get_logger("turnstile.outage")
Answer = TypeVar("Answer")

Outlast = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""`outlast`, told by whom it is to be given up."""


async def outlast(call: Callable[[], Awaitable[Answer]], *, given_up: asyncio.Event) -> Answer:
    """The answer of `call`, which must bear being repeated after an unknown outcome.

    Raises DatabaseUnavailableError once `given_up` is set and the database is still away.
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
                    "database.row_held" if isinstance(error, RowHeldError) else "database.away", error=str(error)
                )
            wait = ceiling(tries, BASE_SECONDS, CAP_SECONDS) * random.uniform(0.5, 1)  # noqa: S311 - not a secret
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await given_up.wait()
