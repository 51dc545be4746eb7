"""Opens messages. The input of a compensation is made by SQL, of contents that stay sealed under the turn that failed. Pure."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from turnstile.errors import ContentsUnreadableError
from turnstile.sealing.contents import Contents, Unopened
from turnstile.sealing.place import ERROR, INPUT, Place, message_column, value_column
from turnstile.turn.identifiers import is_reserved_session
from turnstile.turn.stored_json import encode


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


def reseal_message(
    contents: Contents, text: str, tenant_id: str, session_id: str, turn_id: UUID, role: str, kind: str
) -> str:
    """The stored form of a row of `messages` under the key that seals. Raises ContentsUnreadableError."""
    if not (role == "user" and is_reserved_session(session_id)):
        return contents.reseal_json(text, Place(tenant_id, session_id, turn_id, message_column(role, kind)))

    def reseal(value: Any, place: Place) -> Any:
        return json.loads(contents.reseal_json(encode(value), place))

    def reseal_error(error: str | None, place: Place) -> str | None:
        return None if error is None else contents.reseal(error, place)

    stored = json.loads(text)
    changed = _each_part(stored, tenant_id, reseal, reseal_error)
    return text if changed == stored else encode(changed)


def _open_compensation(contents: Contents, stored: Any, tenant_id: str) -> Any:
    return _each_part(stored, tenant_id, contents.open_json, contents.open_optional)


def _each_part(
    stored: Any,
    tenant_id: str,
    of_json: Callable[[Any, Place], Any],
    of_text: Callable[[str | None, Place], str | None],
) -> Any:
    """The input of a compensation, with these functions applied to each content in it."""
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
        "error": of_text(error, Place(tenant_id, session_id, failed, ERROR)),
        "inputs": [of_json(one, of_input) for one in inputs],
        "values": {
            key: of_json(value, Place(tenant_id, session_id, failed, value_column(str(key))))
            for key, value in values.items()
        },
    }
