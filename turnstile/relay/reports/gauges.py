"""What a relay measures once a minute in addition to the backlog and what needs an operator: the DLQs, and the webhooks
that are due.

Only where metrics are exported: a look costs a call of SQS for each queue, and a statement.
"""

import asyncio

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.process import logs
from turnstile.relay.reports.periodic_report import EVERY_SECONDS, report_every_minute
from turnstile.statements.webhooks import count_due
from turnstile.telemetry.metrics import DLQ_MESSAGES, WEBHOOKS_OWED


async def measure(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    stopping: asyncio.Event,
    *,
    every_seconds: float = EVERY_SECONDS,
) -> None:
    """Measures until `stopping`. No failure ends it. The process needs `sqs:GetQueueAttributes` on the DLQs."""
    if not settings.exports_metrics:
        await stopping.wait()
        return

    async def watch_dlq(queue: str) -> None:
        logs.bind(queue=queue)

        async def count() -> None:
            DLQ_MESSAGES.set(await queues.count(queue, dead=True), queue)

        await report_every_minute(
            "dlq", count, stopping, every_seconds=every_seconds, gauges=[DLQ_MESSAGES], labels=[queue]
        )

    async def watch_webhooks() -> None:
        async def count() -> None:
            WEBHOOKS_OWED.set(await count_due(database))

        await report_every_minute("webhooks", count, stopping, every_seconds=every_seconds, gauges=[WEBHOOKS_OWED])

    # Each in a task of its own: a DLQ that is missing, refuses or does not respond must not hide the others.
    async with asyncio.TaskGroup() as looks:
        for queue in settings.queues_by_name:
            looks.create_task(watch_dlq(queue))
        if settings.webhook_hosts:
            looks.create_task(watch_webhooks())
