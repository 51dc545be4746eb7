"""What a handler returned, made fit for storage. Pure.

A reply that Postgres refuses would fail its own settle again and again and turn an answered turn into a poison pill, so
it is cleaned here, and what can't be cleaned fails the turn with a reason.
"""

import json
from dataclasses import dataclass
from typing import Any

from turnstile.turn.stored_json import MAX_DEPTH, is_too_deep

MAX_REPLY_CHARACTERS = 1_000_000
"""As JSON."""

# Made once: json.dumps makes one for each call that asks for anything unusual.
_as_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class UnfitReplyError(ValueError):
    """The handler returned something that is not JSON, or too much of it."""


@dataclass(frozen=True, slots=True)
class CleanReply:
    """The reply, and how many characters had to be taken out of it."""

    value: Any
    removed: int
    text: str
    """Its JSON as it was when it was looked at. The value is the handler's own: a task or a thread may go on changing it."""


def clean(reply: Any, *, what: str = "the reply", most: int = MAX_REPLY_CHARACTERS) -> CleanReply:
    """Removes U+0000, which Postgres refuses, and lone surrogates, which UTF-8 does.

    Raises UnfitReplyError, which says `what` is not JSON, or has more than `most` characters of it, or is nested too deep.
    """
    try:
        text = _as_text(reply)
    except (TypeError, ValueError, RecursionError) as error:
        raise UnfitReplyError(f"{what} is not JSON: {error}") from None
    if len(text) > most:
        raise UnfitReplyError(f"{what} has {len(text)} characters, more than {most}")
    if is_too_deep(reply):
        raise UnfitReplyError(f"{what} is nested more than {MAX_DEPTH} levels deep")
    try:
        # The common case costs one look at the text that was made anyway.
        if "\\u0000" not in text and not _has_surrogate(text):
            return CleanReply(reply, 0, text)
        value, removed = _scrub(json.loads(text))
        return CleanReply(value, removed, _as_text(value))
    except RecursionError:
        # Within the limit, but given away by a call that is far down in a recursion of its own.
        raise UnfitReplyError(f"{what} is nested too deep to be cleaned here") from None


def clean_partial(said: str | None) -> str | None:
    """The same for what a stopped turn had said so far, cut where a reply would be refused; None if that is nothing."""
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
