"""One invocation of the function: processes a batch of messages within the invocation's time.

The end of an invocation is a shutdown at a known time, in the same two stages: in the last third of the time, or for the
grace period if that is shorter, no more turns are begun; then the turns that still run are handed back, PENDING and free of
charge. After the end the invocation has no lock, no lease and no heartbeat, because the container may be frozen for an hour or
for ever.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress

import psycopg

from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, MessageStaysError, QueueUnavailableError, UnknownQueueError
from turnstile.statements.defer import Defer, DeferResult, defer
from turnstile.statements.paused_queues import read_paused_queues
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.aws_lambda.sqs_event import SqsRecord, not_to_delete
from turnstile.worker.composition import TurnWork
from turnstile.worker.lifecycle.shutdown import Shutdown, drain
from turnstile.worker.resources import Resources

RESERVE_SECONDS = 5.0
"""The time reserved for handing back and for the last calls: if Lambda cuts an invocation off, each of its turns is charged a
crash."""
LAST_CALLS_SECONDS = 0.3
PAUSE_SECONDS = 1.0
"""How long to ask whether the queue is paused. A Postgres that does not answer lets no turn begin either."""
HEARTBEAT_END_SECONDS = 1.0
BACK_AFTER_SECONDS = 10
"""SQS delivers a message that could not be processed again after this time. The queue's visibility timeout may be six times the
function's timeout, and would block a FIFO group for as long. A delivery at once would meet the same outage."""
MARGIN_SECONDS = 2.0


def longest_attempt(settings: Settings, whole_seconds: float) -> float:
    """The longest timeout of an attempt, in a function with a timeout of `whole_seconds`.

    An attempt that begins with the invocation times out before it would be handed back. Handing back is free of charge, so a turn
    that is too long for any invocation would otherwise be begun again for ever.
    """
    return max(1.0, whole_seconds - RESERVE_SECONDS - settings.cancel_grace_seconds - MARGIN_SECONDS)


class Invocation:
    def __init__(self, resources: Resources, ends_at: float, whole_seconds: float) -> None:
        self._resources = resources
        self._stops_at = ends_at - RESERVE_SECONDS
        self._before = asyncio.all_tasks()
        self._shutdown = Shutdown()
        self._room = asyncio.Semaphore(resources.settings.concurrency)
        self._done: set[str] = set()
        self._begun: set[str] = set()
        self._watching: asyncio.Task[None] | None = None
        self._work = TurnWork(
            resources,
            self._shutdown,
            # No more messages come into this invocation. With True, each session run ends after its limit of turns, so that the
            # invocation can end.
            is_full=lambda: True,
            # The relay is a separate service: a function does not run after its invocation.
            nudge_relay=lambda: None,
            # Lambda receives the messages.
            deaf_for=lambda: 0.0,
            longest_attempt_seconds=longest_attempt(resources.settings, whole_seconds),
        )

    async def answer(self, records: Sequence[SqsRecord]) -> list[SqsRecord]:
        """Processes what fits into the time. Returns the rest: their messages must not be deleted, and are visible again soon."""
        try:
            if self._seconds_left() > 0:
                await self._process([one.message for one in records])
            else:
                log.warning("lambda.no_time", messages=len(records))
        finally:
            await self._come_to_rest()
        kept = not_to_delete(records, self._done)
        await self._give_back([one.message for one in kept])
        return kept

    def _seconds_left(self) -> float:
        return self._stops_at - time.monotonic()

    async def _process(self, messages: Sequence[ReceivedMessage]) -> None:
        await self._read_pause()
        self._work.start()
        # It looks at once, and ends with the invocation; what it has found is kept for the next one.
        self._watching = asyncio.create_task(self._resources.memory_watch.run(self._shutdown.stopping))
        for message in messages:
            self._work.in_flight.begin(self._serve(message))
        grace = min(self._resources.settings.grace_seconds, self._seconds_left() / 3)
        all_done = asyncio.create_task(self._work.in_flight.finished())
        await asyncio.wait({all_done}, timeout=self._seconds_left() - grace)
        self._shutdown.stopping.set()
        if not all_done.done():
            await drain(self._shutdown, self._work.in_flight, all_done, self._work.processor.runner.hand_back, grace)

    async def _read_pause(self) -> None:
        # The heartbeat reads it as well, but only after the first turns have begun.
        try:
            async with asyncio.timeout(PAUSE_SECONDS):
                paused = await read_paused_queues(self._resources.database)
        except (DatabaseUnavailableError, TimeoutError, psycopg.Error) as error:
            log.warning("lambda.pause_not_read", error_class=type(error).__name__)
        else:
            self._work.pause.set(self._resources.address.name in paused)

    async def _serve(self, message: ReceivedMessage) -> None:
        async with self._room:
            if self._shutdown.stopping.is_set():
                return
            self._begun.add(message.message_id)
            try:
                if self._work.pause.is_on:
                    await self._set_aside(message)
                else:
                    await self._work.processor.process(message)
            except (DatabaseUnavailableError, MessageStaysError, QueueUnavailableError, UnknownQueueError) as error:
                log.warning("lambda.not_processed", message_id=message.message_id, error=str(error))
            except Exception:
                # A bug of ours. SQS delivers the message again, and the other messages are processed.
                log.exception("lambda.failed", message_id=message.message_id)
            else:
                # The turn is answered, handed back, or left to another worker that will look again (BUSY). In each case this is
                # committed, and the row is owed its next wake-up. So the message may be deleted, as in the consumer (rule 4).
                self._done.add(message.message_id)

    async def _set_aside(self, message: ReceivedMessage) -> None:
        """Lets the message of a paused queue go: Lambda still receives from the queue, and the relay sends another message when
        the queue resumes.

        If the message were reported as failed, each delivery would count as a receive, and the last one would move it to the DLQ.
        """
        wake_up = await self._work.processor.delivery.read(message)
        if wake_up is None:
            return
        [owed] = await defer(self._resources.database, [Defer(wake_up.tenant_id, wake_up.session_id, 0.0)])
        if owed is DeferResult.LOCKED:
            raise MessageStaysError("the row of a paused queue is locked")

    async def _come_to_rest(self) -> None:
        """Ends all tasks and threads of this invocation: after a thaw, none may act on a lock or a lease that it has lost."""
        self._shutdown.stopping.set()
        self._shutdown.given_up.set()
        await self._work.end(HEARTBEAT_END_SECONDS)
        # Tasks in the background: wake-ups of parents, deletions on FIFO queues, last events of streams.
        begun = asyncio.all_tasks() - self._before - {asyncio.current_task()}
        finishing = asyncio.create_task(self._resources.emitters.finish(LAST_CALLS_SECONDS))
        await asyncio.wait({*begun, finishing}, timeout=LAST_CALLS_SECONDS)

    async def _give_back(self, messages: Sequence[ReceivedMessage]) -> None:
        began = [message for message in messages if message.message_id in self._begun]
        others = [message for message in messages if message.message_id not in self._begun]
        for some, seconds in ((began, BACK_AFTER_SECONDS), (others, 0)):
            if some:
                log.info("lambda.given_back", messages=len(some), after_seconds=seconds)
                with suppress(QueueUnavailableError, UnknownQueueError, TimeoutError):
                    async with asyncio.timeout(LAST_CALLS_SECONDS * 2):
                        await self._resources.queues.give_back(
                            self._resources.address.name, some, after_seconds=seconds
                        )
