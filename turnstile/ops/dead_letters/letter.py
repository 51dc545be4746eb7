"""Classifies a message on a dead-letter queue by the row of its turn. Pure.

A dead letter is valid while its row is FAILED in the letter's own generation. If the row has changed since, the letter is
obsolete. An operator must look at malformed messages and at those of unknown turns.
"""

from dataclasses import dataclass
from enum import StrEnum

from turnstile.errors import MalformedMessageError
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import WakeUp, decode


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
