"""Double texting: what becomes of a message that comes while its session is busy. Pure.

A session is busy while a turn is in line (has a `seq` and is open) or its queue has halted it. A scheduled turn has no place
in line before it is due, so it makes nobody busy and is neither merged into nor interrupted.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never
from uuid import UUID

MAX_INPUTS = 100
"""Of one turn. What comes after them is a turn of its own: no handler is given a book, and no row is locked for ever."""

MAX_INPUT_BYTES = 256 * 1024
"""Of one turn's inputs as JSON; the one that passes it is the last. A claim reads fifty turns at a time."""


class OnBusy(StrEnum):
    """What a client wants done if the session is busy."""

    ENQUEUE = "enqueue"
    """Wait in line, as if nothing were: the default."""
    REJECT = "reject"
    """Refuse, and say which turn is open."""
    INTERRUPT = "interrupt"
    """Cancel what is open, then answer this."""
    MERGE = "merge"
    """Add it to the turn that is still waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastInLine:
    """The session's newest open turn, locked."""

    turn_id: UUID
    queue: str
    untouched: bool
    """PENDING and never claimed."""
    inputs: int
    """How many things the user has said in it."""
    input_bytes: int
    """And how long they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """A locked session. `busy_with` is its head, else the turn that halted it."""

    busy_with: UUID | None = None
    last: LastInLine | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """Refuse it, because of this turn."""

    busy_with: UUID


@dataclass(frozen=True, slots=True)
class Merge:
    """Add it to this turn."""

    turn_id: UUID


@dataclass(frozen=True, slots=True)
class Record:
    """Make a turn of it, after what is open has been cancelled if `interrupting`."""

    interrupting: bool = False


Decision = Reject | Merge | Record


def decide(on_busy: OnBusy, state: SessionState, queue: str) -> Decision:
    """What becomes of a message for `queue`."""
    match on_busy:
        case OnBusy.ENQUEUE:
            return Record()
        case OnBusy.REJECT:
            return Record() if state.busy_with is None else Reject(state.busy_with)
        case OnBusy.INTERRUPT:
            return Record(interrupting=True)
        case OnBusy.MERGE:
            return _merge(state.last, queue)
        case _:
            assert_never(on_busy)


def _merge(last: LastInLine | None, queue: str) -> Decision:
    # Only into the last in line: into an earlier turn it would be answered before what was said before it. And only into
    # one that no handler has seen: the outside effects of an attempt, what it recorded, and the provider that knows it by
    # its idempotency key all belong to the input that it had.
    if last is None or not last.untouched or last.queue != queue:
        return Record()
    has_room = last.inputs < MAX_INPUTS and last.input_bytes < MAX_INPUT_BYTES
    return Merge(last.turn_id) if has_room else Record()
