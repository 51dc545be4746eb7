"""The malformed messages on dead-letter queues. They are nowhere else: no row has what they say."""

from collections.abc import AsyncGenerator, Collection

from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.letter import read_wake_up
from turnstile.ops.dead_letters.read_dlq import DeadLetterPass
from turnstile.turn.envelope import ReceivedMessage


async def read_malformed(queues: MessageQueues, queue: str) -> AsyncGenerator[ReceivedMessage, None]:
    """Those on the DLQ of `queue`, which it gives back at the end. Raises QueueUnavailableError or UnknownQueueError."""
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches():
            for message in messages:
                if read_wake_up(message) is None:
                    yield message


async def delete_malformed(queues: MessageQueues, queue: str, message_ids: Collection[str]) -> int:
    """Deletes those of these messages that are on the DLQ and malformed; returns how many SQS has deleted.

    By their ids: what came since the operator looked stays. Raises as `read_malformed`.
    """
    deleted = 0
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches():
            chosen = [one for one in messages if one.message_id in message_ids and read_wake_up(one) is None]
            deleted += len(await dead.delete(chosen))
    return deleted
