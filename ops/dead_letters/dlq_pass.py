"""One pass over a dead-letter queue: each message is seen once, and what is not deleted is given back at the end.

What has been seen is kept invisible meanwhile, so that the queue brings the next ones. A pass that is killed leaves them
to their visibility timeout. On a FIFO queue a kept message holds back the later ones of its session: those are seen by
the next pass, once the kept one is gone.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Self

from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.turn.envelope import ReceivedMessage

FRUITLESS_RECEIVES = 3
"""SQS asks only some of its servers in a short poll: one empty answer is not an empty queue."""

SLACK = 100


class DeadLetterPass:
    """Use as a context manager; leaving it gives everything back."""

    def __init__(self, queues: MessageQueues, queue: str) -> None:
        self._queues = queues
        self._queue = queue
        self._kept: dict[str, ReceivedMessage] = {}
        self._deleted: set[str] = set()
        self.expected = 0
        """About how many messages there were at the start."""

    async def __aenter__(self) -> Self:
        self.expected = await self._queues.count(self._queue, dead=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        # Best effort, also after an outage: their visibility timeout brings them back otherwise.
        with contextlib.suppress(QueueUnavailableError):
            await self._queues.give_back(self._queue, list(self._kept.values()), dead=True)

    async def batches(self, most: int | None = None) -> AsyncIterator[list[ReceivedMessage]]:
        """Messages that this pass has not seen yet, until the queue brings no more, or `most` have been seen."""
        # A bound, because dead letters may come in faster than they are looked at.
        bound = 2 * self.expected + SLACK if most is None else most
        fruitless = 0
        while fruitless < FRUITLESS_RECEIVES and (left := bound - len(self._kept) - len(self._deleted)) > 0:
            received = await self._queues.receive(self._queue, min(BATCH, left), dead=True)
            again = [message for message in received if message.message_id in self._deleted]
            fresh = [message for message in received if message.message_id not in self._kept.keys() | self._deleted]
            # The latest receipt handle is the one by which SQS gives it back.
            self._kept |= {message.message_id: message for message in received if message not in again}
            if again:
                await self.delete(again)
            fruitless = 0 if fresh else fruitless + 1
            if fresh:
                yield fresh

    async def delete(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Deletes messages of this pass for good; returns those that went. The others are given back at the end."""
        if not messages:
            return []
        # Until they are gone: the latest receipt handle of one that came again is known nowhere else.
        self._kept |= {message.message_id: message for message in messages}
        gone = await self._queues.delete(self._queue, messages, dead=True)
        for message in gone:
            self._kept.pop(message.message_id, None)
            self._deleted.add(message.message_id)
        return gone
