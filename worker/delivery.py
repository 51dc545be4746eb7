"""Read and delete: the message's side of a hold.

A body that can't be understood is case zero: it goes to the DLQ as it is, at once, and is deleted only when it is there.
A dead letter that somebody moved back with AWS's own tools counts as a redrive of its turn. One that names a turn of another
tenant, session or queue is malformed, too.
"""

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial

import structlog

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import MalformedMessageError, QueueUnavailableError, RowHeldError, UnknownQueueError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.statements.redrive import Revived, is_of_another, revive
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.message import TRACEPARENT, WakeUp, decode
from turnstile.worker.database_retry import Outlast

COMPANY_SECONDS = 0.05
"""How long a delete may be under way before a few more messages get one of their own: SQS charges by the call."""

ROW_WAIT_SECONDS = 0.1
"""For the rows of a turn that is to be revived: enough for whoever has them for a moment. To wait for longer takes a connection
from everybody else, again and again."""

log = structlog.get_logger("turnstile.delivery")


class Delivery:
    """Reads and deletes the messages of one queue; deletes of the same moment share a call."""

    def __init__(
        self, settings: Settings, queue: QueueSettings, database: Database, queues: MessageQueues, outlast: Outlast
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._database = database
        self._queues = queues
        self._outlast = outlast
        self._deletes: Batcher[ReceivedMessage, None] = Batcher(
            self._delete_many, limit=BATCH, lanes=2, patience_seconds=COMPANY_SECONDS
        )

    async def read(self, message: ReceivedMessage) -> WakeUp | None:
        """Which session the message is about; None if it was malformed, and is on the DLQ by now.

        Raises QueueUnavailableError or UnknownQueueError if the DLQ did not take it: then it stays where it is and comes back.
        Raises RowHeldError for a dead letter that could not put its turn to work, for somebody sits on it: it must not end.
        """
        try:
            wake_up = decode(message.body)
            if (generation := message.dead_letter_generation) is not None:
                await self._revive(wake_up, generation)
        except MalformedMessageError as error:
            _report_malformed(message, error.reason)
            await self._queues.dead_letter_malformed(self._queue.name, message, error.reason)
            await self.delete(message)
            return None
        return wake_up

    def delete(self, message: ReceivedMessage) -> "asyncio.Future[None]":
        """Begins to delete; best effort. What is not deleted is delivered again and finds nothing to do."""
        return self._deletes(message)

    async def give_back(self, message: ReceivedMessage, after_seconds: float) -> None:
        """Has it delivered again in so many seconds; best effort: else it comes when its visibility timeout is over."""
        try:
            await self._queues.give_back(self._queue.name, [message], after_seconds=after_seconds)
        except (QueueUnavailableError, UnknownQueueError) as error:
            log.info("message.not_given_back", error=str(error))

    async def send_anew(self, wake_up: WakeUp, message: ReceivedMessage) -> None:
        """Sends another wake-up in place of one that is deleted; best effort: the row has its net."""
        try:
            traceparent = message.attributes.get(TRACEPARENT, "")
            await self._queues.send(self._queue.name, [OutgoingMessage(wake_up, traceparent)])
        except (QueueUnavailableError, UnknownQueueError) as error:
            log.info("message.not_sent_anew", error=str(error))

    async def _revive(self, wake_up: WakeUp, generation: int) -> None:
        if await self._outlast(partial(is_of_another, self._database, wake_up, self._queue.name)):
            raise MalformedMessageError("it names a turn of another tenant, session or queue")
        trace = start_trace(secrets.randbits(192))

        async def ask() -> list[Revived] | RowHeldError:
            try:
                return await revive(
                    self._database,
                    [(wake_up.turn_id, generation)],
                    [trace],
                    expires_in_seconds=[self._queue.expires_in_seconds],
                    net_seconds=self._settings.net_seconds,
                    wait_seconds=ROW_WAIT_SECONDS,
                )
            except RowHeldError as error:
                # An outage to whoever outlasts those: he would ask again for as long as the row is held.
                return error

        revived = await self._outlast(ask)
        if isinstance(revived, RowHeldError):
            raise revived
        log.info("turn.redriven_by_move", turn_id=str(wake_up.turn_id), generation=generation, revived=bool(revived))

    async def _delete_many(self, messages: Sequence[ReceivedMessage]) -> list[None]:
        try:
            await self._queues.delete(self._queue.name, messages)
        except (QueueUnavailableError, UnknownQueueError) as error:
            # Somebody may have deleted the queue itself. Of that the hold must not break off: its turn is answered.
            log.info("message.not_deleted", messages=len(messages), error=str(error))
        return [None] * len(messages)


def _report_malformed(message: ReceivedMessage, reason: str) -> None:
    # An alarm is on this line, and it comes first: where the worker dies before the message is on the DLQ, it is received, and
    # reported, once more.
    log.error("message.malformed", message_id=message.message_id, reason=reason)
