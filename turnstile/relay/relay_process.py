"""Runs the relay in a process of its own, from its start to the stop signal."""

import asyncio

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.table_version import READ_VERSION
from turnstile.config.settings import Settings
from turnstile.memory.watch import MemoryWatch
from turnstile.message_queue import MessageQueues
from turnstile.process.database_role import connecting_as
from turnstile.process.redis_clients import connect_memory
from turnstile.process.startup_check import check_servers
from turnstile.process.stop_signals import on_stop_signal
from turnstile.relay.arrivals import Arrivals
from turnstile.relay.erasures import Erasures
from turnstile.relay.loop import Relay
from turnstile.relay.reports.attention_metric import report_attention
from turnstile.relay.reports.backlog_metric import report_backlog
from turnstile.relay.reports.gauges import measure
from turnstile.relay.reports.standstill_metric import report_standstill
from turnstile.relay.reports.worker_metric import report_workers
from turnstile.relay.webhooks.delivery import WebhookDelivery
from turnstile.telemetry.own_log import log
from turnstile.telemetry.tracing import Traces


async def run_relay(settings: Settings, traces: Traces) -> None:
    """Runs until SIGTERM, SIGHUP or Ctrl-C. Finishes the round under way first, unless a second signal comes."""
    settings = connecting_as(settings, "relay")
    stopping = asyncio.Event()
    running = asyncio.current_task()

    def stop(_: int) -> None:
        if stopping.is_set() and running is not None:
            running.cancel()
        stopping.set()

    on_stop_signal(stop)
    await check_servers(settings)
    queues = MessageQueues(settings, traces=traces)
    redis = connect_memory(settings)
    memory_watch = MemoryWatch(redis)
    try:
        await queues.check_credentials()
        async with Database(settings.database, "turnstile-relay", size=3, pinned=True, first=READ_VERSION) as database:
            log.info("relay.started", queues=list(settings.queues_by_name))
            try:
                async with asyncio.TaskGroup() as together:
                    for report in (report_backlog, report_attention, report_standstill):
                        together.create_task(report(database, list(settings.queues_by_name), stopping))
                    together.create_task(report_workers(database, settings, stopping))
                    together.create_task(measure(database, queues, settings, stopping))
                    together.create_task(memory_watch.run(stopping))
                    relay = Relay(database, queues, settings)
                    together.create_task(relay.run(stopping))
                    together.create_task(Arrivals(database, settings, relay.nudge).run(stopping))
                    together.create_task(Erasures(database, redis, settings).run(stopping))
                    if settings.webhook_hosts:
                        together.create_task(WebhookDelivery(database, settings).run(stopping))
            except ExceptionGroup as errors:
                # One task failed and ended the others: the operator sees its error, not the group.
                raise errors.exceptions[0] from None
            log.info("relay.stopped")
    finally:
        await queues.close()
        await redis.close()
