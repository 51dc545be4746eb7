"""The states of a turn and the legal ways between them.

Everything that decides whether a status may follow another lives in this file. The database enforces the same table with a
trigger (`turn_status.sql` of migration 0001), and the diagram in ARCHITECTURE.md is generated from it; tests compare them.

The vocabulary is Google Cloud Batch's, as the asynchronous guideline recommends (G7). There is no hold status: a
scheduled turn, or one that waits for its retry, is PENDING with a future `execute_at`.
"""

from enum import StrEnum


class TurnStatus(StrEnum):
    """Where a turn stands."""

    PENDING = "PENDING"
    """Accepted, not being answered: waiting for its place, its time or its retry."""
    RUNNING = "RUNNING"
    """Claimed by one worker, under a fence and a lease."""
    SUCCEEDED = "SUCCEEDED"
    """Answered once; the reply is in the history."""
    FAILED = "FAILED"
    """Given up; its input and error stay, and a redrive may bring it back."""
    CANCELED = "CANCELED"
    """Stopped on request. Never revived (G15)."""

    @property
    def is_open(self) -> bool:
        """True while the turn can still be answered without anybody's help."""
        return self in OPEN

    @property
    def is_terminal(self) -> bool:
        """True once nothing but a redrive of a FAILED turn will move it."""
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
"""before -> after -> what does it. `None` is "no such turn yet"."""


def mermaid() -> str:
    """The state diagram of the documentation, drawn from TRANSITIONS."""
    lines = ["stateDiagram-v2"]
    for before, follows in TRANSITIONS.items():
        for after, verb in follows.items():
            lines.append(f"    {'[*]' if before is None else before} --> {after}: {verb}")
    lines += [f"    {status} --> [*]" for status in TurnStatus if status.is_terminal]
    return "\n".join(lines)
