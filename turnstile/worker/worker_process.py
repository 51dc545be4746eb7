"""The worker process: creates its parts in order, and closes them in reverse order."""

import asyncio
import logging
import multiprocessing
import os
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial

from turnstile.backends.postgres.database import Database
from turnstile.backends.shared_answer import SharedAnswer
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, DatabaseUnfitError, QueueUnavailableError, TurnstileError
from turnstile.handlers.handler import Handler
from turnstile.limits.fleet_limits import WaitingSession
from turnstile.message_queue import MessageQueues
from turnstile.process import logs
from turnstile.process.database_role import connecting_as
from turnstile.process.gc_tuning import spare_collector
from turnstile.process.metrics_export import exporting_metrics
from turnstile.process.startup_check import check_servers
from turnstile.relay.arrivals import Arrivals
from turnstile.relay.erasures import Erasures
from turnstile.relay.loop import Relay
from turnstile.relay.reports.attention_metric import report_attention
from turnstile.relay.reports.backlog_metric import report_backlog
from turnstile.relay.reports.gauges import measure
from turnstile.relay.reports.standstill_metric import report_standstill
from turnstile.relay.reports.worker_metric import report_workers
from turnstile.relay.webhooks.delivery import WebhookDelivery
from turnstile.statements.advance_fences import ADVANCE
from turnstile.telemetry import tracing
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import QueueAddress
from turnstile.worker.composition import TurnWork
from turnstile.worker.consumer import Consumer
from turnstile.worker.lifecycle.event_loop import WorkerLoop
from turnstile.worker.lifecycle.handler_loading import load
from turnstile.worker.lifecycle.health import Checks, serve_health
from turnstile.worker.lifecycle.scale_in_protection import ProtectionTerms, protect_while_busy
from turnstile.worker.lifecycle.shutdown import Shutdown, drain
from turnstile.worker.resources import Resources, name_worker
from turnstile.worker.takeover import Takeover

DATABASE_CONNECTIONS = 6
"""Connections of the pool. Few, to protect the database. More slots need no more: the claims and settles of all slots share
statements."""

HEARTBEAT_END_SECONDS = 2.0
TASKS_END_SECONDS = 0.5


def serve(settings: Settings, handler: Handler | None = None) -> int:
    """Runs a worker until a shutdown, then ends the process. Raises SettingsError or UnknownQueueError before it begins.

    `handler`: left out, that of the settings is loaded.
    """
    settings = connecting_as(settings, "worker")
    logs.configure(settings)
    handler = handler or load(settings.handler or settings.find_queue(settings.queue).handler)
    traces = tracing.start("turnstile-worker", wanted=settings.exports_traces, shared=True)
    loop = WorkerLoop()
    try:
        with exporting_metrics(settings, "worker"):
            status = loop.run_until_complete(_run(settings, handler, traces))
    except asyncio.CancelledError:
        log.critical("worker.cancelled", reason="a handler has cancelled every task of the event loop")
        status = 1
    except TurnstileError:
        # The worker has not begun. End the connections' tasks while the loop still exists; otherwise asyncio complains later.
        loop.run_until_complete(_end_tasks())
        raise
    # Not asyncio.run, which waits for every remaining task: neither a handler that ignores its cancellation, in a task or in a
    # thread, nor an unfinished long poll may keep the process alive.
    tracing.flush(traces)
    # As Python does at an ordinary exit. Otherwise processes that handlers have forked would stay behind.
    for child in multiprocessing.active_children():
        child.terminate()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _run(settings: Settings, handler: Handler, traces: tracing.Traces) -> int:
    contents = read_contents(settings)
    shutdown = Shutdown()
    shutdown.install()
    await check_servers(settings)
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(
            Database(
                settings.database,
                "turnstile-worker",
                size=DATABASE_CONNECTIONS,
                pinned=True,
                first=ADVANCE,
                contents=contents,
            )
        )
        queues = MessageQueues(settings, traces=traces)
        stack.push_async_callback(queues.close)
        await queues.check_credentials()
        address = await _find_queue(queues, settings.queue, shutdown.stopping)
        if address is None:
            return 0
        worker_id = name_worker()
        logs.identify(worker_id=worker_id)
        resources = Resources.open(stack, settings, handler, worker_id, database, queues, address, traces)
        # Best effort. A cold client first reads a cluster's slots and commands. In a lock call, this might exceed the
        # timeout, and the first sessions would run without a lock.
        if not await resources.redis.lock.ping():
            log.warning(
                "worker.without_redis",
                instead="sessions run without locks until REDIS_URL answers; Postgres decides alone",
            )
        return await _Worker(resources, shutdown).run(stack)


async def _find_queue(queues: MessageQueues, queue: str, stopping: asyncio.Event) -> QueueAddress | None:
    while not stopping.is_set():
        try:
            return await queues.find(queue)
        except QueueUnavailableError as error:
            log.warning("worker.waits_for_sqs", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stopping.wait()
    return None


class _Worker:
    def __init__(self, resources: Resources, shutdown: Shutdown) -> None:
        settings = resources.settings
        self.settings = settings
        self.resources = resources
        self.shutdown = shutdown
        self.work = TurnWork(
            resources,
            shutdown,
            is_full=lambda: self.consumer.full,
            nudge_relay=lambda: self.relay.nudge(),
            deaf_for=lambda: self.consumer.deaf_for(),
            takes_over=True,
            begin_called=self._begin_called,
            begins_paused=True,
        )
        self.relay = Relay(resources.database, resources.queues, settings, self.work.heartbeat.evidence)
        self.consumer = Consumer(
            resources.queues,
            settings.queue,
            self.work.slots,
            self.work.in_flight,
            self.work.processor.process,
            shutdown.stopping,
            pollers=settings.pollers,
            pause=self.work.pause,
        )
        self.takeover = Takeover(settings, resources.database, self.consumer, self.work.processor)

    async def run(self, stack: AsyncExitStack) -> int:
        """Works until a shutdown; returns the exit code: 1 if a part of the worker ended by itself, which none should; 4 if the
        database did not take turns back, or did not answer the last claims."""
        cancel_signals = self.work.start()
        stack.push_async_callback(self.work.end, HEARTBEAT_END_SECONDS)
        if self.settings.health_port is not None:
            server = await serve_health(
                self._live, SharedAnswer(self._ready), self.settings.health_host, self.settings.health_port
            )
            stack.push_async_callback(server.cleanup)
        relay_stop = asyncio.Event()
        polling = asyncio.create_task(self.consumer.run(), name="consumer")
        stopped = asyncio.create_task(self.shutdown.stopping.wait(), name="stopping")
        watching = asyncio.create_task(self.resources.memory_watch.run(relay_stop), name="memory watch")
        taking_over = asyncio.create_task(self.takeover.run(self.shutdown.stopping), name="takeover")
        # Wait for all of them: a part that ends by itself ends the worker with a log line. Otherwise its absence could go
        # unnoticed for weeks.
        tasks = {polling, stopped, watching, cancel_signals, taking_over}
        if self.settings.ecs_agent_uri is not None:
            tasks.add(asyncio.create_task(self._protect(self.settings.ecs_agent_uri), name="protection"))
        if self.settings.relay:
            tasks.add(asyncio.create_task(self.relay.run(relay_stop), name="relay"))
            arrivals = Arrivals(self.resources.database, self.settings, self.relay.nudge)
            tasks.add(asyncio.create_task(arrivals.run(relay_stop), name="arrivals"))
            erasures = Erasures(self.resources.database, self.resources.redis.memory, self.settings)
            tasks.add(asyncio.create_task(erasures.run(relay_stop), name="erasures"))
            reports = {"backlog": report_backlog, "attention": report_attention, "standstill": report_standstill}
            for name, report in reports.items():
                reporting = report(self.resources.database, list(self.settings.queues_by_name), relay_stop)
                tasks.add(asyncio.create_task(reporting, name=name))
            judging = report_workers(self.resources.database, self.settings, relay_stop)
            tasks.add(asyncio.create_task(judging, name="workers"))
            measuring = measure(self.resources.database, self.resources.queues, self.settings, relay_stop)
            tasks.add(asyncio.create_task(measuring, name="gauges"))
            if self.settings.webhook_hosts:
                delivery = WebhookDelivery(self.resources.database, self.settings)
                tasks.add(asyncio.create_task(delivery.run(relay_stop), name="webhooks"))
        spare_collector()
        log.info("worker.started", queue=self.settings.queue, slots=self.work.slots.count)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        broken = [task for task in done if task is not stopped and task.exception() is not None]
        for task in broken:
            log.critical("worker.part_ended", part=task.get_name(), exc_info=task.exception())
        self.shutdown.stopping.set()
        self.work.heartbeat.beat_now()
        await drain(
            self.shutdown,
            self.work.in_flight,
            polling,
            self.work.processor.runner.hand_back,
            self.settings.grace_seconds,
        )
        relay_stop.set()
        cancel_signals.cancel()
        await asyncio.wait(tasks, timeout=TASKS_END_SECONDS)
        for task in tasks:
            task.cancel()
        log.info("worker.stopped")
        processor = self.work.processor
        return 1 if broken else 4 if processor.settler.given_up or processor.claimer.given_up else 0

    def _begin_called(self, session: WaitingSession) -> bool:
        """Begins a session without a message, as a prefetched turn if need be."""
        if self.shutdown.stopping.is_set() or self.work.pause.is_on or self.consumer.room <= -self.work.slots.count:
            return False
        self.consumer.serve(partial(self.work.processor.take_called, session))
        return True

    async def _protect(self, agent_uri: str) -> None:
        usual = ProtectionTerms()
        timeout = self.settings.find_queue(self.settings.queue).timeout_seconds
        terms = replace(usual, protected_seconds=max(usual.protected_seconds, timeout))
        await protect_while_busy(agent_uri, lambda: len(self.work.in_flight) > 0, terms, self.shutdown.stopping)

    def _live(self) -> Checks:
        return {
            "loop": self.work.watchdog.stuck_for() < self.settings.watchdog_seconds,
            "receiving": self.shutdown.stopping.is_set() or self.consumer.deaf_for() < self.settings.deaf_seconds,
            "pool": self.work.starved_for() < self.settings.lease_seconds,
        }

    async def _ready(self) -> Checks:
        postgres: bool | str = True
        try:
            await self.resources.database.ping()
        except DatabaseUnfitError as error:
            postgres = str(error)
        except DatabaseUnavailableError:
            postgres = False
        error_class = self.work.broken_handler.error_class
        handler = error_class is None or f"each of its first turns met {error_class}: the worker takes no turns"
        return {"postgres": postgres, "redis": await self.resources.redis.lock.ping(), "handler": handler}
