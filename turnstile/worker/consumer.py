"""The consumer: a long poll for as many turns as there is room for, and a task for each message.

A poll that returns ten messages shows a backlog. During a backlog, two more polls run in addition to the long ones (ADR
0006): a single poll brings only ten messages a round trip, and the batches of later steps would stay small.

No message and no handler may end the poll: a worker that looks healthy and receives nothing is the failure that operators of
queue workers report most. The health check uses `deaf_for`.

A failed receive counts as a poll that returned, because a new process would do no better: otherwise an outage of SQS would
replace the whole fleet and restart its turns. It does not count before the first successful receive, so that a deployment with
the wrong permissions fails and is rolled back.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from turnstile.backends.backoff import full_jitter
from turnstile.backends.jitter import CHANCE
from turnstile.errors import DatabaseUnavailableError, MessageStaysError, QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.telemetry.metrics import MESSAGES_RECEIVED
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.queue_pause import QueuePause
from turnstile.worker.slots.slots import Slots
from turnstile.worker.turns_in_flight import TurnsInFlight

BESIDE = 2
"""Extra polls during a backlog, in addition to the long ones (ADR 0006)."""
BACKOFF_BASE_SECONDS = 0.25
BACKOFF_CAP_SECONDS = 5.0
STAYS_BASE_SECONDS = 2.0
STAYS_CAP_SECONDS = 30.0
"""How much later a message that stays in the queue is delivered again, at most. The first delay doubles with each
receive, up to the cap. Each visit takes a slot for half a second, and after a thousand receives SQS moves the message
to the DLQ."""

ALONE_SECONDS = 1.0
"""No extra poll begins for this long after one that returned fewer than ten messages: SQS charges by the call."""


Process = Callable[[ReceivedMessage], Awaitable["asyncio.Future[Any] | None"]]
Run = Callable[[], Awaitable["asyncio.Future[Any] | None"]]


class Consumer:
    """Receives messages for free slots, and prefetches some. `process` handles one message."""

    def __init__(
        self,
        queues: MessageQueues,
        queue: str,
        slots: Slots,
        in_flight: TurnsInFlight,
        process: Process,
        stopping: asyncio.Event,
        *,
        pollers: int = 1,
        pause: QueuePause | None = None,
    ) -> None:
        self._pollers = pollers
        self.pause = pause or QueuePause()
        self._queues = queues
        self._queue = queue
        self._process = process
        self._stopping = stopping
        self._slots = slots
        self._reserved = 0
        """Turns that polls under way may bring."""
        self._kept_free = 0
        self._room_changed = asyncio.Event()
        """Set when a poll that waits for room must look again."""
        self.in_flight = in_flight
        self._left_behind: set[asyncio.Future[Any]] = set()
        self._beside = 0
        self._alone_until = 0.0
        self._returned_at = time.monotonic()
        self._has_received = False
        slots.on_give_back(self._room_changed.set)
        self.pause.on_change(self._note_pause)

    @property
    def room(self) -> int:
        """Free slots. Those that polls under way have reserved count as free. Negative while turns are prefetched.

        Handlers that ignored their cancellation keep their slots.
        """
        return self._slots.count - len(self.in_flight) - len(self._left_behind)

    @property
    def full(self) -> bool:
        return self.room <= 0

    def serve(self, run: Run, message: ReceivedMessage | None = None) -> None:
        """Starts the processing of a message or, without one, the takeover of a lost turn."""
        task = self.in_flight.begin(self._serve(run, message))
        # Called after the task has left `in_flight`.
        task.add_done_callback(lambda _: self._room_changed.set())

    def keep_free(self, slots: int) -> None:
        """Reserves slots for `serve`: polls leave them free until this is called with fewer."""
        self._kept_free = slots
        self._room_changed.set()

    def deaf_for(self) -> float:
        """Seconds since a poll returned; 0 while all slots are busy or the queue is paused. Failed polls count only after the
        first successful one.

        A slot whose handler ignored its cancellation does not count as busy: if all slots are like that, the worker is deaf.
        """
        if (self.pause.is_on and self.pause.is_known) or (self.full and self._slots.count > len(self._left_behind)):
            return 0.0
        return time.monotonic() - self._returned_at

    def _note_pause(self) -> None:
        # The time of a pause does not count as deaf.
        self._returned_at = time.monotonic()
        self._room_changed.set()

    async def run(self) -> None:
        """Polls until `stopping`. Finishes a poll that is under way then, and gives its messages back."""
        async with asyncio.TaskGroup() as pollers:
            for _ in range(self._pollers):
                pollers.create_task(self._poll(pollers))
            pollers.create_task(self._wake_at_stop())

    async def _poll(self, pollers: asyncio.TaskGroup) -> None:
        failures = 0
        while most := await self._reserve():
            if (brought := await self._receive(most, failures)) is None:
                failures += 1
                await self._back_off(failures)
                continue
            failures = 0
            if brought == BATCH and self._beside < BESIDE and time.monotonic() >= self._alone_until:
                self._beside += 1
                pollers.create_task(self._poll_beside())

    async def _poll_beside(self) -> None:
        # No long poll: it would keep its room reserved while it waits, and the long poll waits already.
        try:
            while await self._reserve(BATCH):
                if await self._receive(BATCH, wait=False) != BATCH:
                    self._alone_until = time.monotonic() + ALONE_SECONDS
                    return
        finally:
            self._beside -= 1

    async def _receive(self, most: int, failures: int = 0, *, wait: bool = True) -> int | None:
        """Receives and starts the turns; returns how many messages there were, or None after a failure."""
        received: list[ReceivedMessage] = []
        try:
            received = await self._queues.receive(self._queue, most, wait=wait)
            self._has_received = True
            self._returned_at = time.monotonic()
            MESSAGES_RECEIVED.add(len(received), self._queue)
        except (QueueUnavailableError, UnknownQueueError) as error:
            if self._has_received:
                self._returned_at = time.monotonic()
            log.warning("consumer.receive_failed", error=str(error), failures=failures + 1)
            return None
        finally:
            self._reserved -= most
            # Another poll may be waiting for this room.
            self._room_changed.set()
        if self._stopping.is_set() or self.pause.is_on:
            await self._give_back(received)
        else:
            for message in received:
                self.serve(partial(self._process, message), message)
        return len(received)

    async def _reserve(self, least: int = 1) -> int:
        """Takes room for one poll, for `least` to ten turns; 0 when stopping."""
        has_waited = False
        while not self._stopping.is_set():
            if (most := self._find_room()) >= least:
                if has_waited:
                    # The time spent waiting for room does not count as deaf.
                    self._returned_at = time.monotonic()
                self._reserved += most
                return most
            has_waited = True
            self._room_changed.clear()
            await self._room_changed.wait()
        return 0

    def _find_room(self) -> int:
        if self.pause.is_on:
            return 0
        left = self.room - self._reserved
        # `ahead` changes as time goes on, without an event.
        room = left + self._slots.ahead() - self._kept_free
        # A poll that only prefetches asks for ten: no slot is idle meanwhile, and SQS charges ten like one.
        return max(0, min(BATCH, room)) if left > 0 or room >= BATCH else 0

    async def _wake_at_stop(self) -> None:
        await self._stopping.wait()
        self._room_changed.set()

    async def _serve(self, run: Run, message: ReceivedMessage | None) -> None:
        left_behind: asyncio.Future[Any] | None = None
        message_id = message and message.message_id
        try:
            left_behind = await self._run_or_give_back(run, message)
        except (DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError) as error:
            log.warning("consumer.not_processed", message_id=message_id, error=str(error))
        except asyncio.CancelledError:
            # A handler has cancelled every task, or a shutdown can't wait any longer. The line has the ids of the turn.
            log.warning("consumer.cancelled", message_id=message_id)
            raise
        except Exception:
            # A bug of ours. SQS delivers the message again, takeover finds a lost turn again, and the poll goes on.
            log.exception("consumer.failed", message_id=message_id)
        finally:
            if left_behind is not None and not left_behind.done():
                self._left_behind.add(left_behind)
                left_behind.add_done_callback(self._forget)

    def _forget(self, left_behind: "asyncio.Future[Any]") -> None:
        self._left_behind.discard(left_behind)
        self._room_changed.set()

    async def _run_or_give_back(self, run: Run, message: ReceivedMessage | None) -> "asyncio.Future[Any] | None":
        try:
            return await run()
        except MessageStaysError as error:
            if message is not None:
                jitter = CHANCE.uniform(0.5, 1)
                seconds = full_jitter(message.receive_count, jitter, STAYS_BASE_SECONDS, STAYS_CAP_SECONDS)
                log.warning("consumer.message_stays", reason=str(error), again_in_seconds=round(seconds, 1))
                await self._give_back([message], seconds)
            return None

    async def _give_back(self, messages: list[ReceivedMessage], after_seconds: float = 0) -> None:
        if not messages:
            return
        try:
            await self._queues.give_back(self._queue, messages, after_seconds=after_seconds)
        except (QueueUnavailableError, UnknownQueueError) as error:
            log.info("consumer.not_given_back", messages=len(messages), error=str(error))

    async def _back_off(self, failures: int) -> None:
        jitter = CHANCE.uniform(0.5, 1)
        wait = full_jitter(failures, jitter, BACKOFF_BASE_SECONDS, BACKOFF_CAP_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._stopping.wait()
