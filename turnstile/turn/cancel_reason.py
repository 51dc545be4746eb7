"""Why a turn is stopped. Pure: the row records it, and its handler is told."""

from enum import StrEnum


class CancelReason(StrEnum):
    """Why a turn, or one attempt at it, was stopped."""

    USER = "user"
    """Somebody cancelled the turn, or its session."""
    TIMEOUT = "timeout"
    """The attempt took longer than it may. The turn may be tried again."""
    SHUTDOWN = "shutdown"
    """The worker must go. The turn is handed back, and runs elsewhere."""
    SUPERSEDED = "superseded"
    """Something newer took its place: a message that interrupts, or another worker's claim of the same turn."""

    @classmethod
    def read(cls, text: str | None) -> "CancelReason":
        """The reason that a row gives. A word that is none of ours, put there by hand, counts as a person's wish."""
        return next((reason for reason in cls if reason == text), cls.USER)
