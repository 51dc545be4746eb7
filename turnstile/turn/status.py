"""The states of a turn and the legal transitions.

This file alone decides whether a status may follow another. The database enforces the same table with a trigger
(`turn_status.sql` of migration 0001), and the diagram in ARCHITECTURE.md is generated from it; tests compare all three.

The names are those of Google Cloud Batch, as the asynchronous guideline recommends. There is no separate waiting status:
a scheduled turn, or a turn that waits for its retry, is PENDING with a future `execute_at`.
"""

from enum import StrEnum


class TurnStatus(StrEnum):
    """The status of a turn."""

    PENDING = "PENDING"
    """Accepted, not running: it waits for its place in line, its `execute_at` or its retry."""
    RUNNING = "RUNNING"
    """Claimed by one worker, under a fence and a lease."""
    SUCCEEDED = "SUCCEEDED"
    """Answered; the reply is in the history."""
    FAILED = "FAILED"
    """Given up. Input and error are kept, and a redrive can make it PENDING again."""
    CANCELED = "CANCELED"
    """Stopped on request. Never revived."""

    @property
    def is_open(self) -> bool:
        """True while the turn can still be answered without an operator."""
        return self in OPEN

    @property
    def is_terminal(self) -> bool:
        """True once only a redrive (of a FAILED turn) can change the status."""
        return self not in OPEN


OPEN = frozenset({TurnStatus.PENDING, TurnStatus.RUNNING})

TRANSITIONS: dict[TurnStatus | None, dict[TurnStatus, str]] = {
    None: {TurnStatus.PENDING: "submit", TurnStatus.CANCELED: "submit, after its cancel"},
    TurnStatus.PENDING: {
        TurnStatus.RUNNING: "claim",
        TurnStatus.CANCELED: "cancel",
    },
    TurnStatus.RUNNING: {
        TurnStatus.RUNNING: "lease ran out, claimed again",
        TurnStatus.PENDING: "retry, snooze, release, join",
        TurnStatus.SUCCEEDED: "settle",
        TurnStatus.FAILED: "settle, crash loop",
        TurnStatus.CANCELED: "cancel",
    },
    TurnStatus.SUCCEEDED: {},
    TurnStatus.FAILED: {TurnStatus.PENDING: "redrive, retry"},
    TurnStatus.CANCELED: {},
}
"""status before -> status after -> the operation. `None` means that the turn does not exist yet."""
