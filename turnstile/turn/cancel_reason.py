"""Why a turn is stopped: stored in its row and shown to its handler. Pure."""

from enum import StrEnum


class CancelReason(StrEnum):
    """Why a turn, or one attempt at it, was stopped."""

    USER = "user"
    """A client cancelled the turn, or its session."""
    OPERATOR = "operator"
    """An operator cancelled the turn."""
    PARENT = "parent"
    """Its parent joined it with `on_failure="cancel"`, and another of these children has failed."""
    TIMEOUT = "timeout"
    """The attempt exceeded its timeout. The turn may be retried."""
    SHUTDOWN = "shutdown"
    """The worker shuts down. The turn is released and runs on another worker."""
    SUPERSEDED = "superseded"
    """An interrupting message, or another worker's claim of the same turn, replaced it."""

    @classmethod
    def read(cls, text: str | None) -> "CancelReason":
        """The reason stored in a row. An unknown value, written by hand, counts as USER."""
        return next((reason for reason in cls if reason == text), cls.USER)
