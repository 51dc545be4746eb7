"""The roles of callers. Pure."""

from enum import StrEnum


class Role(StrEnum):
    """What a caller of the API may do in its tenant. Each role includes those before it."""

    READ = "read"
    """Read turns, lists, histories and events."""
    SUBMIT = "submit"
    """Submit turns, and cancel a turn by its id."""
    OPERATE = "operate"
    """Change what other callers have begun: cancel all open turns of a session."""
    ADMIN = "admin"
    """Everything that the API offers."""

    def includes(self, needed: "Role") -> bool:
        order = tuple(Role)
        return order.index(self) >= order.index(needed)
