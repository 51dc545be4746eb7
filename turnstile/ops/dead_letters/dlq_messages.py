"""The messages on a dead-letter queue: one pass over them, and what each is by the row of its turn.

A dead letter is valid while its row is FAILED in the letter's own generation. If the row has changed since, the letter is
obsolete. An operator must look at malformed messages and at those of unknown turns.

A pass sees each message once, and makes the remaining messages visible again at the end. Seen messages stay invisible
during the pass, so that SQS returns the next ones. If the pass is killed, they become visible again after their
visibility timeout. On a FIFO queue, an invisible message blocks the later messages of its session: a later pass sees
them, once the first message is deleted.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from turnstile.backends.postgres.database import Database
from turnstile.errors import MalformedMessageError, QueueUnavailableError
from turnstile.message_queue import BATCH, MessageQueues
from turnstile.statements.revive import read_generations
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import WakeUp, decode

FRUITLESS_RECEIVES = 3
"""Receives without a new message before the queue counts as empty. A short poll asks only some SQS servers, so one empty
response does not prove an empty queue."""

SLACK = 100


class LetterKind(StrEnum):
    """The kinds of messages on a dead-letter queue."""

    STILL_DEAD = "still_dead"
    """Its turn is FAILED: a redrive may revive it."""
    OUTLIVED = "outlived"
    """Its row has changed: the turn was redriven, answered, cancelled or given up since, or its parent has repeated the call."""
    MOVED_BY_SQS = "moved_by_sqs"
    """An ordinary wake-up that SQS or an operator moved here. Its row is not FAILED, so nothing is lost with it."""
    MALFORMED = "malformed"
    """Not a Turnstile message."""
    UNKNOWN_TURN = "unknown_turn"
    """Well formed, but the turn does not exist: it belongs to another environment, or its row was removed."""

    @property
    def is_obsolete(self) -> bool:
        """Whether it may be deleted without loss."""
        return self in {LetterKind.OUTLIVED, LetterKind.MOVED_BY_SQS}


@dataclass(frozen=True, slots=True)
class Letter:
    """A message of a dead-letter queue. `wake_up` is None if the body is malformed."""

    message: ReceivedMessage
    wake_up: WakeUp | None
    kind: LetterKind


def read_wake_up(message: ReceivedMessage) -> WakeUp | None:
    """Parses the body, which may have any content."""
    try:
        return decode(message.body)
    except MalformedMessageError:
        return None


def classify(message: ReceivedMessage, wake_up: WakeUp | None, row: tuple[int, str] | None) -> LetterKind:
    """`row` is generation and status of its turn, if that exists (`statements.revive.read_generations`)."""
    if wake_up is None:
        return LetterKind.MALFORMED
    if row is None:
        return LetterKind.UNKNOWN_TURN
    generation, status = row
    named = message.dead_letter_generation
    if named is None:
        return LetterKind.STILL_DEAD if status == TurnStatus.FAILED else LetterKind.MOVED_BY_SQS
    # A letter newer than its row: the table was restored from a backup, so the letter must not be deleted.
    if named > generation or (status == TurnStatus.FAILED and named == generation):
        return LetterKind.STILL_DEAD
    return LetterKind.OUTLIVED


async def classify_letters(database: Database, messages: Sequence[ReceivedMessage]) -> list[Letter]:
    """Compares each message with the current row of its turn."""
    wake_ups = [read_wake_up(message) for message in messages]
    rows = await read_generations(database, [wake_up.turn_id for wake_up in wake_ups if wake_up])
    return [
        Letter(message, wake_up, classify(message, wake_up, rows.get(wake_up.turn_id) if wake_up else None))
        for message, wake_up in zip(messages, wake_ups, strict=True)
    ]


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
