"""Log lines once a minute, whatever fails: metrics are made of them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg
import structlog

from turnstile.errors import DatabaseUnavailableError

EVERY_SECONDS = 60.0
"""A CloudWatch metric has one value a minute."""

log = structlog.get_logger("turnstile.metrics")


async def report_every_minute(
    what: str, report: Callable[[], Awaitable[None]], stopping: asyncio.Event, *, every_seconds: float
) -> None:
    """Calls `report` again and again until `stopping`. No failure ends it, and none of it reaches the relay beside it.

    `what` begins the names of the lines about failures.
    """
    while not stopping.is_set():
        try:
            await report()
        except (DatabaseUnavailableError, psycopg.Error) as error:
            # Nothing is told: a 0 that is none would have workers taken away, or call off an alarm.
            log.warning(f"{what}.not_read", error=str(error))
        except Exception:
            # A bug of ours. A figure is not worth the worker that reports it.
            log.exception(f"{what}.failed")
        with suppress(TimeoutError):
            async with asyncio.timeout(every_seconds):
                await stopping.wait()
