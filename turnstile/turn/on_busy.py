"""Double texting: the policies for a message that arrives while its session is busy. Pure.

A session is busy while a turn is in line (has a `seq` and is open) or while its queue has halted it. A scheduled turn has no
place in line before it is due. Until then it does not make the session busy, and is neither merged into nor interrupted.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never
from uuid import UUID

MAX_INPUTS = 100
"""Most inputs of one turn. A further input starts a new turn: this bounds what a handler gets, and how long the row is locked."""

MAX_INPUT_BYTES = 256 * 1024
"""Limit of one turn's inputs, in bytes of JSON; the input that exceeds it is the last. A claim reads fifty turns at a time."""


class OnBusy(StrEnum):
    """The client's choice for a busy session."""

    ENQUEUE = "enqueue"
    """Wait in line: the default."""
    REJECT = "reject"
    """Refuse the message, and name the open turn."""
    INTERRUPT = "interrupt"
    """Cancel the open turns, then answer this message."""
    MERGE = "merge"
    """Add the message to the last turn, if that is still waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastInLine:
    """The session's newest open turn, locked."""

    turn_id: UUID
    queue: str
    untouched: bool
    """PENDING and never claimed."""
    inputs: int
    """Number of its inputs."""
    input_bytes: int
    """Size of its inputs in bytes of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A locked session. `busy_with` is its head or, if it has none, the turn that halted it."""

    busy_with: UUID | None = None
    last: LastInLine | None = None


@dataclass(frozen=True, slots=True)
class Refuse:
    """Refuse the message, because of this turn."""

    busy_with: UUID


@dataclass(frozen=True, slots=True)
class Merge:
    """Add the message to this turn."""

    turn_id: UUID


@dataclass(frozen=True, slots=True)
class Record:
    """Record the message as a new turn. If `interrupting`, cancel the open turns first."""

    interrupting: bool = False


Decision = Refuse | Merge | Record


def decide(on_busy: OnBusy, state: SessionState, queue: str) -> Decision:
    match on_busy:
        case OnBusy.ENQUEUE:
            return Record()
        case OnBusy.REJECT:
            return Record() if state.busy_with is None else Refuse(state.busy_with)
        case OnBusy.INTERRUPT:
            return Record(interrupting=True)
        case OnBusy.MERGE:
            return _merge(state.last, queue)
        case _:
            assert_never(on_busy)


def _merge(last: LastInLine | None, queue: str) -> Decision:
    # Only into the last in line: in an earlier turn it would be answered before older messages. And only into a turn
    # that no handler has seen: the side effects of an attempt, its recorded values, and its idempotency key at a provider
    # all belong to the input that the attempt had.
    if last is None or not last.untouched or last.queue != queue:
        return Record()
    has_room = last.inputs < MAX_INPUTS and last.input_bytes < MAX_INPUT_BYTES
    return Merge(last.turn_id) if has_room else Record()
