"""One invocation of the function: processes a batch of messages within the invocation's time.

The end of an invocation is a shutdown at a known time, in the same two stages (G16): in the last third of the time, or for the
grace period if that is shorter, no more turns are begun; then the turns that still run are handed back, PENDING and free of
charge. After the end the invocation has no lock, no lease and no heartbeat, because the container may be frozen for an hour or
for ever.
"""

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from turnstile.backends.postgres.database import Database
from turnstile.config.redis_clients import RedisClients
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.handlers.handler import Handler
from turnstile.memory.history import History
from turnstile.memory.item_cache import ItemCache
from turnstile.message_queue import MessageQueues
from turnstile.statements.worker_registry import WorkerRecord
from turnstile.streaming.cancel_signals import listen
from turnstile.turn.envelope import QueueAddress, ReceivedMessage
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.attempt.run_blocking import in_own_thread
from turnstile.worker.aws_lambda.event import Delivery, not_to_delete
from turnstile.worker.dependencies import WorkerDeps
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.process.shutdown import Shutdown, drain
from turnstile.worker.process.watchdog import Watchdog
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots

RESERVE_SECONDS = 5.0
"""The time reserved for handing back and for the last calls: if Lambda cuts an invocation off, each of its turns is charged a
crash."""
LAST_CALLS_SECONDS = 0.3
HEARTBEAT_END_SECONDS = 1.0
BACK_AFTER_SECONDS = 10
"""When a message is delivered again that could not be processed. Not after the queue's visibility timeout, which is six times the
function's timeout and would block a FIFO group for as long; and not at once, into the same outage."""
MARGIN_SECONDS = 2.0

log = structlog.get_logger("turnstile.lambda")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The objects that a container keeps from one invocation to the next."""

    settings: Settings
    handler: Handler
    worker_id: str
    queues: MessageQueues
    address: QueueAddress
    database: Database
    redis: RedisClients
    lock: SessionLock
    history: History
    memory: ItemCache
    emitters: Emitters


def longest_attempt(settings: Settings, whole_seconds: float) -> float:
    """The longest timeout of an attempt, in a function with a timeout of `whole_seconds`.

    An attempt that begins with the invocation times out before it would be handed back. Handing back is free of charge, so a turn
    that is too long for any invocation would otherwise be begun again for ever.
    """
    return max(1.0, whole_seconds - RESERVE_SECONDS - settings.cancel_grace_seconds - MARGIN_SECONDS)


class Invocation:
    """The processing of one event. Create it on the event loop."""

    def __init__(self, container: Container, ends_at: float, whole_seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._container = container
        self._stops_at = ends_at - RESERVE_SECONDS
        self._before = asyncio.all_tasks()
        self._shutdown = Shutdown()
        self._threads = ThreadPoolExecutor(container.settings.concurrency, "handler")
        self._room = asyncio.Semaphore(container.settings.concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._done: set[str] = set()
        self._begun: set[str] = set()
        self._stays: set[str] = set()
        self._hints: asyncio.Task[None] | None = None
        self._heartbeat = Heartbeat(
            container.settings,
            container.queues,
            container.address,
            loop.call_soon_threadsafe,
            self._describe,
            Watchdog(loop, container.settings.watchdog_seconds).look,
        )
        self._processor = Processor(
            _without_fair_shares(container.settings),
            WorkerDeps(
                database=container.database,
                queues=container.queues,
                lock=container.lock,
                history=container.history,
                memory=container.memory,
                heartbeat=self._heartbeat,
                emitters=container.emitters,
                handler=container.handler,
                worker_id=container.worker_id,
                fifo=container.address.fifo,
                threads=self._threads,
                slots=Slots(container.settings.concurrency),
                # No more messages come into this invocation. With True, each session run ends after its limit of turns, so that
                # the invocation can end.
                is_full=lambda: True,
                # The relay is a separate service: a function does not run after its invocation.
                nudge_relay=lambda: None,
                stopping=self._shutdown.stopping,
                given_up=self._shutdown.given_up,
                message_stays=lambda message: self._stays.add(message.message_id),
                longest_attempt_seconds=longest_attempt(container.settings, whole_seconds),
            ),
        )

    async def answer(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Processes what fits into the time. Returns the rest: their messages must not be deleted, and are visible again soon."""
        try:
            if self._seconds_left() > 0:
                await self._work([one.message for one in deliveries])
            else:
                log.warning("lambda.no_time", messages=len(deliveries))
        finally:
            await self._come_to_rest()
        kept = not_to_delete(deliveries, self._done)
        await self._give_back([one.message for one in kept])
        return kept

    @property
    def busy(self) -> int:
        """Messages being worked on."""
        return len(self._tasks)

    async def finished(self) -> None:
        """Returns when nothing is being worked on."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def abandon(self) -> None:
        """Cancels what is still being worked on."""
        for task in self._tasks:
            task.cancel()

    def _seconds_left(self) -> float:
        return self._stops_at - time.monotonic()

    async def _work(self, messages: Sequence[ReceivedMessage]) -> None:
        self._heartbeat.start()
        self._hints = asyncio.create_task(
            listen(self._container.settings, self._container.redis.lock, self._heartbeat.nudge), name="hints"
        )
        for message in messages:
            task = asyncio.create_task(self._serve(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        grace = min(self._container.settings.grace_seconds, self._seconds_left() / 3)
        all_done = asyncio.create_task(self.finished())
        await asyncio.wait({all_done}, timeout=self._seconds_left() - grace)
        self._shutdown.stopping.set()
        if not all_done.done():
            await drain(self._shutdown, self, all_done, self._processor, grace)

    async def _serve(self, message: ReceivedMessage) -> None:
        async with self._room:
            if self._shutdown.stopping.is_set():
                return
            self._begun.add(message.message_id)
            try:
                left_behind = await self._processor.process(message)
            except (DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError) as error:
                log.warning("lambda.not_processed", message_id=message.message_id, error=str(error))
            except Exception:
                # A bug of ours. SQS delivers the message again, and the other messages are processed.
                log.exception("lambda.failed", message_id=message.message_id)
            else:
                # The turn is answered, handed back, or left to another worker that will look again (BUSY). In each case this is
                # committed, and the row is owed its next wake-up. So the message may be deleted, as in the consumer (rule 4),
                # unless the row could not be written and only the message brings the turn back.
                if message.message_id not in self._stays:
                    self._done.add(message.message_id)
                if left_behind is not None:
                    left_behind.add_done_callback(_look_at)

    async def _come_to_rest(self) -> None:
        """Ends all tasks and threads of this invocation: after a thaw, none may act on a lock or a lease that it has lost."""
        self._shutdown.stopping.set()
        self._shutdown.given_up.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._hints is not None:
            self._hints.cancel()
            await in_own_thread(self._heartbeat.stop, HEARTBEAT_END_SECONDS)
        # Tasks in the background: wake-ups of parents, deletions on FIFO queues, last events of streams.
        begun = asyncio.all_tasks() - self._before - {asyncio.current_task()}
        finishing = asyncio.create_task(self._container.emitters.finish(LAST_CALLS_SECONDS))
        await asyncio.wait({*begun, finishing}, timeout=LAST_CALLS_SECONDS)

    async def _give_back(self, messages: Sequence[ReceivedMessage]) -> None:
        began = [message for message in messages if message.message_id in self._begun]
        others = [message for message in messages if message.message_id not in self._begun]
        for some, seconds in ((began, BACK_AFTER_SECONDS), (others, 0)):
            if some:
                log.info("lambda.given_back", messages=len(some), after_seconds=seconds)
                with suppress(QueueUnavailableError, UnknownQueueError, TimeoutError):
                    async with asyncio.timeout(LAST_CALLS_SECONDS * 2):
                        await self._container.queues.give_back(
                            self._container.address.name, some, after_seconds=seconds
                        )

    def _describe(self) -> WorkerRecord:
        return WorkerRecord(
            worker_id=self._container.worker_id,
            queue=self._container.address.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            slots=self._container.settings.concurrency,
            busy=self.busy,
            queue_latency_seconds=self._processor.queue_latency.seconds(time.monotonic()),
            draining=self._shutdown.stopping.is_set(),
        )


def _look_at(left_behind: "asyncio.Future[Any] | Future[Any]") -> None:
    if not left_behind.cancelled():
        left_behind.exception()  # retrieved, so that asyncio does not log it


def _without_fair_shares(settings: Settings) -> Settings:
    # The batch is fixed: deferring a part of it would let no other tenant in.
    return settings.model_copy(update={"tenant_slots": "all"}) if settings.tenant_slots == "fair" else settings
