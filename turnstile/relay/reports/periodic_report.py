"""Calls a report of the relay once a minute, whatever fails. After a failure its gauges show nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import psycopg

from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.telemetry.instruments import Gauge
from turnstile.telemetry.own_log import log

EVERY_SECONDS = 60.0
"""A CloudWatch metric has one value a minute."""


async def report_every_minute(
    event_prefix: str,
    report: Callable[[], Awaitable[None]],
    stopping: asyncio.Event,
    *,
    every_seconds: float,
    gauges: Sequence[Gauge],
    labels: Sequence[str] = (),
) -> None:
    """Calls `report` again and again until `stopping`. No failure ends the loop or affects the relay.

    `event_prefix` begins the names of the log events about failures. `gauges` are those that `report` sets, under `labels` only,
    if there are any: they show nothing after a failure.
    """
    while not stopping.is_set():
        well = False
        try:
            await report()
            well = True
        except (DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError, psycopg.Error) as error:
            # Nothing is reported: a false 0 would scale workers in, or clear an alarm.
            log.warning(f"{event_prefix}.not_read", error=str(error))
        except Exception:
            # A defect of this program. A metric must not end the worker that reports it.
            log.exception(f"{event_prefix}.failed")
        if not well:
            for gauge in gauges:
                gauge.forget(*labels)
        with suppress(TimeoutError):
            async with asyncio.timeout(every_seconds):
                await stopping.wait()
