"""Read and delete: the message's side of a session run.

A message whose body can't be decoded is sent to the DLQ unchanged, at once, and is deleted only after that. A dead letter that an
operator moved back with AWS's own tools counts as a redrive of its turn, and is recorded; a turn that an operator has given up
stays FAILED. If it names a turn of another tenant, session or queue, it is malformed, too.
"""

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import (
    MalformedMessageError,
    MessageStaysError,
    QueueUnavailableError,
    RowLockedError,
    UnknownQueueError,
)
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.statements.revive import is_of_another, revive_by_letter
from turnstile.telemetry.metrics import MESSAGES_MALFORMED
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.wire_format import TRACEPARENT, WakeUp, decode
from turnstile.worker.database_retry import RetryWhileDown

COMPANY_SECONDS = 0.05
"""How long a delete call may be under way before a second one starts for a few messages: SQS charges by the call."""

ROW_WAIT_SECONDS = 0.1
"""The longest wait for the locked rows of a turn that is to be redriven. A longer wait would tie up a connection of the pool."""


class Delivery:
    """Reads and deletes the messages of one queue; deletes of the same moment share a call."""

    def __init__(
        self,
        settings: Settings,
        queue: QueueSettings,
        database: Database,
        queues: MessageQueues,
        retry_while_down: RetryWhileDown,
    ) -> None:
        self._settings = settings
        self._queue = queue
        self._database = database
        self._queues = queues
        self._retry_while_down = retry_while_down
        self._deletes: Batcher[ReceivedMessage, None] = Batcher(
            self._delete_many, limit=BATCH, lanes=2, patience_seconds=COMPANY_SECONDS
        )

    async def read(self, message: ReceivedMessage) -> WakeUp | None:
        """The wake-up in the message; None if the message was malformed, and is on the DLQ now.

        Raises QueueUnavailableError or UnknownQueueError if it could not be sent to the DLQ: then SQS delivers it again.
        Raises MessageStaysError for a dead letter if another transaction has locked its turn's row.
        """
        try:
            wake_up = decode(message.body)
            if (generation := message.dead_letter_generation) is not None:
                await self._revive(wake_up, generation, message)
        except MalformedMessageError as error:
            _report_malformed(self._queue.name, message, str(error))
            await self._queues.dead_letter_malformed(self._queue.name, message, str(error))
            await self.delete(message)
            return None
        return wake_up

    def delete(self, message: ReceivedMessage) -> "asyncio.Future[None]":
        """Starts the deletion; best effort. A message that is not deleted is delivered again, and there is nothing to do then."""
        return self._deletes(message)

    async def send_anew(self, wake_up: WakeUp, message: ReceivedMessage) -> None:
        """Sends a wake-up in place of a deleted message; best effort: otherwise the relay sends it at the row's
        `send_at`."""
        log.info("message.sent_anew", session_id=wake_up.session_id)
        try:
            traceparent = message.attributes.get(TRACEPARENT, "")
            await self._queues.send(self._queue.name, [OutgoingMessage(wake_up, traceparent)])
        except (QueueUnavailableError, UnknownQueueError) as error:
            log.info("message.not_sent_anew", error=str(error))

    async def _revive(self, wake_up: WakeUp, generation: int, message: ReceivedMessage) -> None:
        if await self._retry_while_down(partial(is_of_another, self._database, wake_up, self._queue.name)):
            raise MalformedMessageError("it names a turn of another tenant, session or queue")
        trace = start_trace(secrets.randbits(192))

        async def ask() -> bool | RowLockedError:
            try:
                return await revive_by_letter(
                    self._database,
                    (wake_up.turn_id, generation),
                    trace,
                    message_id=message.message_id,
                    expires_in_seconds=self._queue.expires_in_seconds,
                    resend_seconds=self._settings.resend_seconds,
                    wait_seconds=ROW_WAIT_SECONDS,
                )
            except RowLockedError as error:
                # Returned, not raised: `retry_while_down` would retry for as long as the row is locked.
                return error

        revived = await self._retry_while_down(ask)
        if isinstance(revived, RowLockedError):
            raise MessageStaysError("another transaction has locked the turn that its dead letter names") from revived
        log.info(
            "turn.redriven_by_move",
            turn_id=str(wake_up.turn_id),
            session_id=wake_up.session_id,
            trace_id=trace.trace_id if revived else message.trace_id,
            generation=generation,
            revived=revived,
        )

    async def _delete_many(self, messages: Sequence[ReceivedMessage]) -> list[None]:
        try:
            await self._queues.delete(self._queue.name, messages)
        except (QueueUnavailableError, UnknownQueueError) as error:
            # Even if an operator has deleted the queue: the session run goes on, because its turn is answered.
            log.info("message.not_deleted", messages=len(messages), error=str(error))
        return [None] * len(messages)


def _report_malformed(queue: str, message: ReceivedMessage, reason: str) -> None:
    # An alarm counts this line. It comes first: if the worker dies before the message is on the DLQ, the message is received
    # and reported once more.
    log.error("message.malformed", message_id=message.message_id, trace_id=message.trace_id, reason=reason)
    MESSAGES_MALFORMED.add(1, queue)
