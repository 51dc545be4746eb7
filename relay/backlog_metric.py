"""The metrics of the backlog: a log line and gauges, per minute and queue, beside every relay (ADR 0025).

Several relays report the same backlog. A reader of the lines takes the maximum, never the sum.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

import structlog

from turnstile.backends.postgres.database import Database
from turnstile.queries.backlog import read_backlog
from turnstile.relay.periodic_report import EVERY_SECONDS, report_every_minute
from turnstile.telemetry.metrics import BACKLOG, BACKLOG_OLDEST

log = structlog.get_logger("turnstile.backlog")


async def report_backlog(
    database: Database, queues: Sequence[str], stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Reports until `stopping`. No failure ends it or reaches the relay beside it."""

    async def report() -> None:
        for one in await read_backlog(database, queues):
            log.info("queue.backlog", **{**asdict(one), "oldest_seconds": round(one.oldest_seconds, 1)})
            for state, turns in (("due", one.due), ("ready", one.ready), ("running", one.running)):
                BACKLOG.set(turns, one.queue, state)
            BACKLOG_OLDEST.set(one.oldest_seconds, one.queue)

    gauges = (BACKLOG, BACKLOG_OLDEST)
    await report_every_minute("backlog", report, stopping, every_seconds=every_seconds, gauges=gauges)
