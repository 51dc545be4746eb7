"""The messages on dead-letter queues that no row explains: malformed ones, and those of turns that are not in the database."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence

from turnstile.backends.postgres.database import Database
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.dlq_messages import DeadLetterPass, LetterKind, classify_letters, read_wake_up
from turnstile.turn.envelope import ReceivedMessage

Pick = Callable[[Sequence[ReceivedMessage]], Awaitable[list[ReceivedMessage]]]
"""Chooses some of these messages."""


async def pick_malformed(messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
    """Those that can't be read. No other copy of them exists."""
    return [message for message in messages if read_wake_up(message) is None]


def picking_unknown(database: Database) -> Pick:
    """Those of turns that do not exist: of another environment, or of the time that a restore of the database has lost."""

    async def pick(messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        letters = await classify_letters(database, messages)
        return [letter.message for letter in letters if letter.kind is LetterKind.UNKNOWN_TURN]

    return pick


async def read_rowless(queues: MessageQueues, queue: str, pick: Pick) -> AsyncGenerator[ReceivedMessage, None]:
    """Those on the DLQ of `queue`, which it gives back at the end. Raises QueueUnavailableError or UnknownQueueError."""
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches():
            for message in await pick(messages):
                yield message


async def delete_rowless(queues: MessageQueues, queue: str, message_ids: Collection[str], pick: Pick) -> int:
    """Deletes the messages with these ids that `pick` chooses again; returns how many SQS has deleted.

    A message that came after the operator looked stays. Raises as `read_rowless`.
    """
    deleted = 0
    async with DeadLetterPass(queues, queue) as dead:
        async for messages in dead.batches():
            chosen = [one for one in await pick(messages) if one.message_id in message_ids]
            deleted += len(await dead.delete(chosen))
    return deleted
