"""The decision about a claimed turn. Pure: `worker.retry_decision` makes it, `statements.settle` commits it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from turnstile.turn.status import TurnStatus


class JoinPolicy(StrEnum):
    """When a turn that waits for its children goes on."""

    ALL = "all"
    """When all have SUCCEEDED, or one has ended otherwise."""
    ANY = "any"
    """When one has SUCCEEDED, or all have ended otherwise."""


class AttemptOutcome(StrEnum):
    """How one attempt ended; the values of `turn_attempts.outcome`."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRIED = "retried"
    SNOOZED = "snoozed"
    CANCELED = "canceled"
    RELEASED = "released"
    JOINED = "joined"
    LOST = "lost"

    @property
    def status(self) -> TurnStatus | None:
        """The turn's status after this outcome; None for a lost attempt, whose turn another claim had taken over."""
        return _STATUS_AFTER[self]


_STATUS_AFTER = {
    AttemptOutcome.SUCCEEDED: TurnStatus.SUCCEEDED,
    AttemptOutcome.FAILED: TurnStatus.FAILED,
    AttemptOutcome.RETRIED: TurnStatus.PENDING,
    AttemptOutcome.SNOOZED: TurnStatus.PENDING,
    AttemptOutcome.CANCELED: TurnStatus.CANCELED,
    AttemptOutcome.RELEASED: TurnStatus.PENDING,
    AttemptOutcome.JOINED: TurnStatus.PENDING,
    AttemptOutcome.LOST: None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The end of one claim, decided but not yet committed."""

    status: TurnStatus
    outcome: AttemptOutcome
    reply: Any = None
    reply_text: str | None = field(default=None, repr=False, compare=False)
    """The reply as JSON, if already encoded. A settle may be retried for long, and code that the handler left running may still
    change the reply object: the text keeps the value that was checked."""
    after_seconds: float = 0.0
    """PENDING only: delay before the next attempt."""
    refund: bool = False
    """The attempt costs nothing: after a release, a snooze, a join."""
    fault: bool = False
    """The attempt counts toward the handler's failures, which `max_attempts` limits."""
    error_class: str | None = None
    error: str | None = None
    """The error's text; of a snooze or a hand-back its reason, which only the attempt keeps. A shutdown's has none."""
    traceback: str | None = field(default=None, repr=False, compare=False)
    """Where the handler raised, without the error's text and without local variables; kept with the attempt."""
    dead_letter: bool = False
    """FAILED only: whether a dead letter must be sent."""
    partial: str | None = None
    """The text emitted so far. It is stored apart from the history if the turn is CANCELED (also if a cancel came first)."""
    joining: tuple[UUID, ...] = ()
    """PENDING only: the ids of the children that the turn waits for."""
    join_policy: JoinPolicy | None = None
