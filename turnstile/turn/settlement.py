"""What is to become of a claimed turn. Pure: `worker.decision` makes it, `statements.settle` commits it."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from turnstile.turn.status import TurnStatus


class JoinPolicy(StrEnum):
    """What a turn that joins its children waits for."""

    ALL = "all"
    """Until all SUCCEEDED, or one did not."""
    ANY = "any"
    """Until one SUCCEEDED, or none did."""


class AttemptOutcome(StrEnum):
    """How one attempt ended; the words of `turn_attempts.outcome`."""

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
        """The status the turn was given with it; None for a lost attempt, whose turn was somebody else's by then."""
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
    """The end of one claim, decided and not yet committed."""

    status: TurnStatus
    outcome: AttemptOutcome
    reply: Any = None
    reply_text: str | None = field(default=None, repr=False, compare=False)
    """Its JSON, if that has been made. A settle may be repeated for long, and the handler may have left something running that
    goes on changing the reply: what was judged is what is stored."""
    after_seconds: float = 0.0
    """PENDING only: how long the turn waits."""
    refund: bool = False
    """The attempt is not charged: a release, a snooze, a join."""
    fault: bool = False
    """Counts against the handler's budget of failures."""
    error_class: str | None = None
    error: str | None = None
    dead_letter: bool = False
    """FAILED only: whether a dead letter is owed."""
    partial: str | None = None
    """What was said so far: kept apart from the history, if the turn is CANCELED (a cancel may have come first)."""
    joining: tuple[UUID, ...] = ()
    """PENDING only: the children that the turn waits for."""
    join_policy: JoinPolicy | None = None
