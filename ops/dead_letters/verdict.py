"""What a message on a dead-letter queue still means, told from the row of its turn. Pure.

The row is the truth: a dead letter counts while its row is FAILED in the letter's own generation. What the row has
outlived is litter; what can't be understood, or names a turn that nobody knows, is for a person to look at.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from turnstile.errors import MalformedMessageError
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp, decode
from turnstile.turn.status import TurnStatus


class Verdict(StrEnum):
    """What a message on a dead-letter queue is."""

    STILL_DEAD = "still_dead"
    """Its turn is FAILED: a redrive may bring it back."""
    OUTLIVED = "outlived"
    """Its row has moved on: redriven, answered or cancelled since, or a child whose call has a successor."""
    MOVED_BY_SQS = "moved_by_sqs"
    """An ordinary wake-up that SQS (or somebody) put here. Its row is not FAILED, so it was only a hint."""
    MALFORMED = "malformed"
    """Not one of our messages."""
    UNKNOWN_TURN = "unknown_turn"
    """Well formed, but no such turn: of another environment, or of a row that was removed."""

    @property
    def is_litter(self) -> bool:
        """Whether deleting it loses nothing."""
        return self in {Verdict.OUTLIVED, Verdict.MOVED_BY_SQS}


@dataclass(frozen=True, slots=True)
class ReadLetter:
    """A message of a dead-letter queue, and what its body says."""

    message: ReceivedMessage
    wake_up: WakeUp | None
    """None: malformed."""


def read_letter(message: ReceivedMessage) -> ReadLetter:
    """Reads the body, which may be anything."""
    try:
        return ReadLetter(message, decode(message.body))
    except MalformedMessageError:
        return ReadLetter(message, None)


def judge(letter: ReadLetter, rows: Mapping[UUID, tuple[int, str]]) -> Verdict:
    """`rows` holds generation and status of the turns that exist (`statements.redrive.read_generations`)."""
    if letter.wake_up is None:
        return Verdict.MALFORMED
    row = rows.get(letter.wake_up.turn_id)
    if row is None:
        return Verdict.UNKNOWN_TURN
    generation, status = row
    named = letter.message.dead_letter_generation
    if named is None:
        return Verdict.STILL_DEAD if status == TurnStatus.FAILED else Verdict.MOVED_BY_SQS
    # A letter newer than its row: the table was restored from a backup. Nothing is thrown away on such a day.
    if named > generation or (status == TurnStatus.FAILED and named == generation):
        return Verdict.STILL_DEAD
    return Verdict.OUTLIVED
