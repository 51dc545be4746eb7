"""The metric of a standstill: a gauge per queue, and a log line per minute while a queue stands still, from every
relay.

No other metric has it: turns that are put off are neither due nor running, and a counter that does not rise says nothing of
turns that wait.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

from turnstile.backends.postgres.database import Database
from turnstile.queries.progress import read_progress
from turnstile.relay.reports.periodic_report import EVERY_SECONDS, report_every_minute
from turnstile.telemetry.metrics import STANDSTILL
from turnstile.telemetry.own_log import log


async def report_standstill(
    database: Database, queues: Sequence[str], stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Reports until `stopping`. No failure ends it or affects the relay."""

    async def report() -> None:
        for one in await read_progress(database, queues):
            STANDSTILL.set(one.standstill_seconds, one.queue)
            if one.still_since is not None:
                facts = {name: value for name, value in asdict(one).items() if name not in {"still_since", "read_at"}}
                log.warning("queue.standstill", **facts, seconds=round(one.standstill_seconds, 1))

    await report_every_minute("standstill", report, stopping, every_seconds=every_seconds, gauges=[STANDSTILL])
