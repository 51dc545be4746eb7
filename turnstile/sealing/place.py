"""Where a content is stored. A seal binds a content to its place: moved elsewhere, it does not open. Pure."""

from typing import Final, NamedTuple
from uuid import UUID

INPUT: Final = "message:user"
REPLY: Final = "message:assistant"
PARTIAL: Final = "message:partial"
ERROR: Final = "error"
"""The error of a turn and of its attempts: a settle writes one text to both."""
TRACEBACK: Final = "traceback"


class Place(NamedTuple):
    """A column, or a field in Redis, of one turn or of one session."""

    tenant_id: str
    session_id: str
    turn_id: UUID | None
    """None: it belongs to the session."""
    column: str
    """The constants of this module and what the functions below make. Part of every seal, so a name never changes."""

    def bound_to(self, key_id: str) -> bytes:
        """The additional data of the cipher. Ids contain no line break, so that only one place makes this text."""
        turn = "" if self.turn_id is None else str(self.turn_id)
        return f"{key_id}\n{self.tenant_id}\n{self.session_id}\n{turn}\n{self.column}".encode()


def message_column(role: str, kind: str = "message") -> str:
    """The column of a row of `messages`."""
    return f"message:{kind if kind != 'message' else role}"


def value_column(key: str) -> str:
    """The column of a value that `ctx.once` has recorded."""
    return f"value:{key}"


def history_column(known: str) -> str:
    """The field of a message in a session's history: with all that the history says about it."""
    return f"history:{known}"


def event_column(key: str, event_id: str, kind: str) -> str:
    """The field of an event of the stream `key`, whose name has the tenant, the session and the turn."""
    return f"event:{key}:{event_id}:{kind}"


def item_column(kind: str, key: str) -> str:
    """The column of an item of the working memory, in Postgres or in Redis."""
    return f"item:{kind}:{key}"
