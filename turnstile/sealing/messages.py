"""Opens messages. The input of a compensation is made by SQL, of contents that stay sealed under the turn that failed. Pure."""

from typing import Any
from uuid import UUID

from turnstile.errors import ContentsUnreadableError
from turnstile.sealing.contents import Contents, Unopened
from turnstile.sealing.place import ERROR, INPUT, Place, message_column, value_column
from turnstile.turn.identifiers import is_reserved_session


def open_message(
    contents: Contents, stored: Any, tenant_id: str, session_id: str, turn_id: UUID, role: str, kind: str = "message"
) -> Any:
    """The content of a row of `messages`. Raises ContentsUnreadableError."""
    if role == "user" and is_reserved_session(session_id):
        return _open_compensation(contents, stored, tenant_id)
    return contents.open_json(stored, Place(tenant_id, session_id, turn_id, message_column(role, kind)))


def try_message(contents: Contents, stored: Any, tenant_id: str, session_id: str, turn_id: UUID, role: str) -> Any:
    """The content, or an Unopened: for reads of many, of which one must not fail the others."""
    try:
        return open_message(contents, stored, tenant_id, session_id, turn_id, role)
    except ContentsUnreadableError as error:
        return Unopened(error)


def _open_compensation(contents: Contents, stored: Any, tenant_id: str) -> Any:
    match stored:
        case {
            "turn_id": str(turn_id),
            "session_id": str(session_id),
            "error": error,
            "inputs": [*inputs],
            "values": {**values},
        }:
            failed = UUID(turn_id)
        case _:
            # No compensation that this version has made.
            return stored
    of_input = Place(tenant_id, session_id, failed, INPUT)
    return {
        **stored,
        "error": contents.open_optional(error, Place(tenant_id, session_id, failed, ERROR)),
        "inputs": [contents.open_json(one, of_input) for one in inputs],
        "values": {
            key: contents.open_json(value, Place(tenant_id, session_id, failed, value_column(str(key))))
            for key, value in values.items()
        },
    }
