"""Cleans a handler's reply for storage. Pure.

A reply that Postgres refuses would fail its own settle again and again, and make an answered turn a poison pill. So the reply is
cleaned here, and a reply that can't be cleaned fails the turn with a reason.
"""

import json
from dataclasses import dataclass
from typing import Any

from turnstile.turn.stored_json import MAX_DEPTH, is_too_deep

MAX_REPLY_CHARACTERS = 1_000_000
"""Characters of JSON."""

# Created once: json.dumps creates an encoder for each call with options other than the defaults.
_as_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class UnfitReplyError(ValueError):
    """The handler returned something that is not JSON, or too much of it."""


@dataclass(frozen=True, slots=True)
class CleanReply:
    """The cleaned reply, and how many characters were removed from it."""

    value: Any
    """A plain copy: a handler's object could still change, or raise where it is compared, after the settle."""
    removed: int
    text: str
    """Its JSON."""


def clean(reply: Any, *, what: str = "the reply", most: int = MAX_REPLY_CHARACTERS) -> CleanReply:
    """Removes U+0000, which Postgres refuses, and lone surrogates, which UTF-8 can't encode.

    Raises UnfitReplyError if the reply is not JSON, has more than `most` characters of JSON, or is nested too deep. The error's
    text calls the reply `what`.
    """
    try:
        text = _as_text(reply)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnfitReplyError(f"{what} is not JSON: {error}") from None
    if len(text) > most:
        raise UnfitReplyError(f"{what} has {len(text)} characters, more than {most}")
    try:
        value = reply if type(reply) is str else json.loads(text)
        if is_too_deep(value):
            raise UnfitReplyError(f"{what} is nested more than {MAX_DEPTH} levels deep")
        # The common case costs one scan of the text, which is needed anyway.
        if "\\u0000" not in text and not _has_surrogate(text):
            return CleanReply(value, 0, text)
        value, removed = _scrub(value)
        return CleanReply(value, removed, _as_text(value))
    except RecursionError:
        # The nesting is within the limit, but the caller itself is deep in a recursion.
        raise UnfitReplyError(f"{what} is nested too deep to be cleaned here") from None


def clean_partial(said: str | None) -> str | None:
    """Cleans the text that a stopped turn has emitted, and cuts it at the limit of a reply; None if nothing is left."""
    return _scrub(said[:MAX_REPLY_CHARACTERS])[0] or None if said else None


def _has_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _scrub(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        kept = "".join(
            character for character in value if character != "\x00" and not "\ud800" <= character <= "\udfff"
        )
        return kept, len(value) - len(kept)
    if isinstance(value, list):
        items = [_scrub(item) for item in value]
        return [item for item, _ in items], sum(removed for _, removed in items)
    if isinstance(value, dict):
        pairs = [(_scrub(key), _scrub(item)) for key, item in value.items()]
        return {key[0]: item[0] for key, item in pairs}, sum(key[1] + item[1] for key, item in pairs)
    return value, 0
