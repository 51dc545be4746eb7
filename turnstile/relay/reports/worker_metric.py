"""The metrics of the registered workers: a log line and a gauge, per minute and queue, from every relay (ADR 0024).

A worker that is blocked, deaf or gone can't be relied on to report it itself.
"""

import asyncio
from collections import Counter

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.workers import WorkerState, judge_worker, read_workers
from turnstile.relay.reports.periodic_report import EVERY_SECONDS, report_every_minute
from turnstile.telemetry.metrics import WORKERS
from turnstile.telemetry.own_log import log

UNWELL = (WorkerState.SILENT, WorkerState.BLOCKED, WorkerState.STARVED, WorkerState.BROKEN, WorkerState.DEAF)
"""States that need a look. A lost worker is reported once, by `worker.lost`; stopping and paused workers are
intended."""


async def report_workers(
    database: Database, settings: Settings, stopping: asyncio.Event, *, every_seconds: float = EVERY_SECONDS
) -> None:
    """Reports until `stopping`. No failure ends it or affects the relay."""

    async def report() -> None:
        found = Counter((one.queue, judge_worker(one, settings)) for one in await read_workers(database))
        for queue in settings.queues_by_name:
            unwell = sum(found[queue, state] for state in UNWELL)
            line = log.warning if unwell else log.info
            line("queue.workers", queue=queue, unwell=unwell, **{state: found[queue, state] for state in WorkerState})
            for state in WorkerState:
                WORKERS.set(found[queue, state], queue, state)

    await report_every_minute("workers", report, stopping, every_seconds=every_seconds, gauges=(WORKERS,))
