"""One pass over a dead-letter queue: sees each message once, and makes the remaining messages visible again at the end.

Seen messages stay invisible during the pass, so that SQS returns the next ones. If the pass is killed, they become visible again
after their visibility timeout. On a FIFO queue, an invisible message blocks the later messages of its session: a later pass sees
them, once the first message is deleted.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Self

from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.turn.envelope import ReceivedMessage

FRUITLESS_RECEIVES = 3
"""Receives without a new message before the queue counts as empty. A short poll asks only some SQS servers, so one empty
response does not prove an empty queue."""

SLACK = 100


class DeadLetterPass:
    """Use as a context manager: its exit makes all messages that were not deleted visible again."""

    def __init__(self, queues: MessageQueues, queue: str) -> None:
        self._queues = queues
        self._queue = queue
        self._kept: dict[str, ReceivedMessage] = {}
        self._deleted: set[str] = set()
        self.expected = 0
        """Approximate number of messages at the start."""

    async def __aenter__(self) -> Self:
        self.expected = await self._queues.count(self._queue, dead=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        # Best effort: otherwise the messages become visible again after their visibility timeout.
        with contextlib.suppress(QueueUnavailableError):
            await self._queues.give_back(self._queue, list(self._kept.values()), dead=True)

    async def batches(self, most: int | None = None) -> AsyncIterator[list[ReceivedMessage]]:
        """Yields new messages in batches, until SQS returns no more or the pass has seen `most`."""
        # A limit, because dead letters may arrive faster than the pass reads them.
        bound = 2 * self.expected + SLACK if most is None else most
        fruitless = 0
        while fruitless < FRUITLESS_RECEIVES and (left := bound - len(self._kept) - len(self._deleted)) > 0:
            received = await self._queues.receive(self._queue, min(BATCH, left), dead=True)
            again = [message for message in received if message.message_id in self._deleted]
            fresh = [message for message in received if message.message_id not in self._kept.keys() | self._deleted]
            # SQS accepts only the latest receipt handle.
            self._kept |= {message.message_id: message for message in received if message not in again}
            if again:
                await self.delete(again)
            fruitless = 0 if fresh else fruitless + 1
            if fresh:
                yield fresh

    async def delete(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Deletes messages; returns those that SQS deleted. The others become visible again at the end."""
        if not messages:
            return []
        # Kept until deleted: the latest receipt handle of a redelivered message is stored only here.
        self._kept |= {message.message_id: message for message in messages}
        gone = await self._queues.delete(self._queue, messages, dead=True)
        for message in gone:
            self._kept.pop(message.message_id, None)
            self._deleted.add(message.message_id)
        return gone
