"""How a failed turn is named where a client has room for one text. Pure."""

from typing import Any


def error_text(error: Any) -> str:
    """`error` is that of an `error` event: `class`, and `message` where the text is for clients."""
    found = error if isinstance(error, dict) else {}
    return str(found.get("message") or f"the turn has failed ({found.get('class')})")
