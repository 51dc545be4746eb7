"""Tells something once a minute, whatever fails: the log lines that metrics are made of."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg
import structlog

from turns.errors import DatabaseUnavailableError

EVERY_SECONDS = 60.0
"""A CloudWatch metric has one value a minute."""

log = structlog.get_logger("turnstile.telling")


async def tell_again_and_again(
    what: str, tell: Callable[[], Awaitable[None]], stopping: asyncio.Event, *, every_seconds: float
) -> None:
    """Calls `tell` again and again until `stopping`. No failure ends it, and none of it reaches the relay beside it.

    `what` begins the names of the lines about failures.
    """
    while not stopping.is_set():
        try:
            await tell()
        except (DatabaseUnavailableError, psycopg.Error) as error:
            # Nothing is told: a 0 that is none would have workers taken away, or call off an alarm.
            log.warning(f"{what}.not_read", error=str(error))
        except Exception:
            # A bug of ours. A figure is not worth the worker that tells it.
            log.exception(f"{what}.failed")
        with suppress(TimeoutError):
            async with asyncio.timeout(every_seconds):
                await stopping.wait()
