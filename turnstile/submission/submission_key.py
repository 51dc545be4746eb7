"""Idempotency of a submit: the key that it is recorded under, and the fingerprint that distinguishes a repeat from
another request.

`statements.submit` compares both with what is recorded.
"""

import hashlib
import json
import re
from typing import Any
from uuid import UUID

from turnstile.turn.identifiers import idempotency_key, turn_id_key

IDEMPOTENCY_KEY_PATTERN = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$"
MAX_IDEMPOTENCY_KEY_CHARACTERS = 255

_CANONICAL = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
# An escape: an even number of backslashes before it are themselves escaped.
_NULL_CHARACTER = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def recorded_key(key: str | None, turn_id: UUID | None) -> str | None:
    """The client's key, or one made of the id that the client has chosen. None: a repeat is a new turn."""
    if key is not None:
        return idempotency_key(key)
    return None if turn_id is None else turn_id_key(turn_id)


def fingerprint(session_id: str, said: dict[str, Any]) -> bytes:
    """SHA-256 of a request's fields. Independent of white space, key order and the format of a time."""
    return hashlib.sha256(canonical_json([session_id, said]).encode()).digest()


def canonical_json(value: Any) -> str:
    """One text for equal values. Raises ValueError for a value that can't be stored and read back unchanged."""
    try:
        text = _CANONICAL.encode(value)
    except ValueError:
        raise ValueError("contains NaN, or a number too large for a double, which ends at 1.8e308") from None
    # The plain search is far quicker.
    if "\\u0000" in text and _NULL_CHARACTER.search(text):
        raise ValueError("contains U+0000")
    return text
