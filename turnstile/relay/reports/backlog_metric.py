"""The metrics of the backlog: a log line and gauges, per minute and queue, from every relay (ADR 0025).

Several relays report the same backlog. A reader of the lines takes the maximum, never the sum.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict

from turnstile.backends.postgres.database import Database
from turnstile.queries.backlog import read_backlog
from turnstile.relay.reports.periodic_report import EVERY_SECONDS, report_every_minute
from turnstile.statements.paused_queues import read_paused_queues
from turnstile.telemetry.metrics import BACKLOG, BACKLOG_OLDEST, QUEUE_PAUSED
from turnstile.telemetry.own_log import log


async def report_backlog(
    database: Database, queues: Sequence[str], stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Reports until `stopping`. No failure ends it or affects the relay."""

    async def report() -> None:
        # A number, because a metric is made of it: an alarm on workers that receive nothing rests while operators want it so.
        paused = await read_paused_queues(database)
        for one in await read_backlog(database, queues):
            seconds = round(one.oldest_seconds, 1)
            log.info("queue.backlog", **{**asdict(one), "oldest_seconds": seconds, "paused": int(one.queue in paused)})
            for state, turns in (("due", one.due), ("ready", one.ready), ("running", one.running)):
                BACKLOG.set(turns, one.queue, state)
            BACKLOG_OLDEST.set(one.oldest_seconds, one.queue)
            QUEUE_PAUSED.set(one.queue in paused, one.queue)

    gauges = (BACKLOG, BACKLOG_OLDEST, QUEUE_PAUSED)
    await report_every_minute("backlog", report, stopping, every_seconds=every_seconds, gauges=gauges)
