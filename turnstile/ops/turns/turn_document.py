"""A turn and its attempts as JSON documents, with the times that the glossary defines."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from turnstile.ops.turns.attempts import EndedAttempt
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

OF_HANDLER = "the handler's"
"""The time-out of a turn whose submit gave none: the table does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTimes:
    """Seconds of a turn in its generation. A time that has not ended goes on until now; None: it has not begun."""

    waiting_seconds: float
    """From `queued_at` to the first start. A turn that ended without a start waited until its end."""
    running_seconds: float | None
    """From the first start to the end, retries and their pauses included."""
    total_seconds: float


def measure_turn(turn: TurnRecord, now: datetime) -> TurnTimes:
    """The times of a turn by the one definition of the glossary. `now` is the database's."""
    queued_at = turn.queued_at or turn.created_at
    end = turn.finished_at or now
    running = None if turn.first_started_at is None else _seconds(turn.first_started_at, end)
    return TurnTimes(
        waiting_seconds=_seconds(queued_at, turn.first_started_at or end),
        running_seconds=running,
        total_seconds=_seconds(queued_at, end),
    )


def turn_document(turn: TurnRecord) -> dict[str, Any]:
    """The row, and the deadline. Without what was said, which needs --show-text."""
    row = {name: value for name, value in asdict(turn).items() if name not in {"inputs", "output"}}
    return {**row, "deadline_at": find_deadline(turn)}


def find_deadline(turn: TurnRecord) -> datetime | None:
    """When the attempt that runs reaches its time-out; None if none runs, or the time-out is not the turn's own."""
    if turn.status is not TurnStatus.RUNNING or turn.started_at is None or turn.timeout_seconds is None:
        return None
    return turn.started_at + timedelta(seconds=turn.timeout_seconds)


def attempt_document(attempt: EndedAttempt) -> dict[str, Any]:
    """The row of the attempt, and how long it waited and ran; null if it never started.

    A lost attempt has no running time: nobody knows when its worker died, and its `finished_at` is that of the takeover.
    """
    end = None if attempt.outcome == AttemptOutcome.LOST else attempt.finished_at
    return {
        **asdict(attempt),
        "waiting_seconds": seconds_between(attempt.due_at, attempt.started_at),
        "running_seconds": seconds_between(attempt.started_at, end),
    }


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else _seconds(start, end)


def _seconds(start: datetime, end: datetime) -> float:
    # Not below 0: a clock may have been set back meanwhile.
    return max(0.0, round((end - start).total_seconds(), 3))
