"""Sends a committed turn's wake-up at once, without making the client wait for a slow or unavailable SQS.

Best effort by design: the wake-up is also owed by the row's `send_at`, so no failure here fails the request.
Normally the message is sent before the response.
"""

import asyncio
import time
from collections.abc import Sequence

from turnstile.backends.batcher import Batcher
from turnstile.backends.circuit_breaker import Circuit
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import OutgoingMessage

LANES = 4
COMPANY_SECONDS = 0.05
"""A partial batch of wake-ups starts a send of its own only if the latest send started this long ago: SQS charges by the call. A
full batch does not wait."""
PATIENCE_SECONDS = 1.0
"""How long a request waits for its wake-up to be sent. After that the send goes on in the background."""

PAUSE_SECONDS = 5.0
THRESHOLD = 2


class WakeUpSending:
    """Sends wake-ups in batches, per queue. A queue whose sends fail is left to the relay for a while."""

    def __init__(self, queues: MessageQueues, names: Sequence[str]) -> None:
        self._lanes = {name: _Lane(queues, name) for name in names}

    async def send(self, queue: str, message: OutgoingMessage) -> bool:
        """Whether the wake-up is known to be sent. Returns within PATIENCE_SECONDS; raises no error of SQS."""
        lane = self._lanes.get(queue)
        # The turn's queue is no longer declared here: a relay of another configuration serves it.
        return lane is not None and await lane.send(message)


class _Lane:
    def __init__(self, queues: MessageQueues, name: str) -> None:
        self._queues = queues
        self._name = name
        self._batcher = Batcher(self._flush, limit=BATCH, lanes=LANES, patience_seconds=COMPANY_SECONDS)
        self.breaker = Circuit(threshold=THRESHOLD, longest_pause_seconds=PAUSE_SECONDS)

    async def send(self, message: OutgoingMessage) -> bool:
        if not self.breaker.allows(time.monotonic()):
            return False
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self._batcher(message)
        except (TimeoutError, QueueUnavailableError, UnknownQueueError):
            # The flush has noted it, once for the batch.
            return False

    async def _flush(self, messages: Sequence[OutgoingMessage]) -> list[bool]:
        loop = asyncio.get_running_loop()
        # A late call counts as one failure, however many requests wait for it. It counts while under way: it may never end.
        lateness = loop.call_later(PATIENCE_SECONDS, self._note_late, len(messages))
        try:
            sent = await self._queues.send(self._name, messages)
        except UnknownQueueError:
            self._note_failure()
            # The turns are committed and the relay keeps trying: an operator must create the queue.
            log.error("queue.missing", queue=self._name, turns=len(messages))
            raise
        except QueueUnavailableError as error:
            self._note_failure()
            log.warning("queue.sqs_away", queue=self._name, turns=len(messages), error=str(error))
            raise
        finally:
            lateness.cancel()
        if loop.time() < lateness.when():
            self.breaker.succeeded()
        taken = {message.wake_up.turn_id for message in sent}
        return [message.wake_up.turn_id in taken for message in messages]

    def _note_failure(self) -> None:
        self.breaker.failed(time.monotonic())

    def _note_late(self, turns: int) -> None:
        self._note_failure()
        log.warning("queue.wake_up_late", queue=self._name, turns=turns, waited_seconds=PATIENCE_SECONDS)
