"""What a browser token may do in its session. Pure."""

from enum import StrEnum
from typing import assert_never

from turnstile.access.role import Role


class Verb(StrEnum):
    READ = "read"
    """Read the session's turns, their events and its history."""
    SUBMIT = "submit"
    """Submit turns to the session."""
    CANCEL = "cancel"
    """Cancel a turn of the session by its id."""

    @property
    def role(self) -> Role:
        """The role that whoever hands the verb on must have."""
        match self:
            case Verb.READ:
                return Role.READ
            case Verb.SUBMIT | Verb.CANCEL:
                return Role.SUBMIT
            case _:
                assert_never(self)
