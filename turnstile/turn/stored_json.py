"""JSON as the tables have it: how it is written, and how deep it may be. Pure.

A column of type `json` keeps the text that it was given, so what is read is what was written: the order of keys, `1e308`, `-0.0`.
Unlike `jsonb` it also takes the escapes of U+0000 and of half a surrogate pair, at which every cast to `jsonb` fails. So they
are refused (`producer.http.strict_json`) or removed (`worker.attempt.reply`) before they get here.
"""

import json
from typing import Any

MAX_DEPTH = 200
"""Levels of nested arrays and objects in what a handler gives away. What writes the API's answers gives up at 255, and answers
have levels of their own; and a value that is written by a call at the stack's bottom may be read by one near its top."""

_CONTAINERS = (dict, list, tuple)

# Made once: json.dumps makes one for each call that asks for anything unusual. Not orjson, which refuses large integers.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: Any) -> str:
    """The JSON text of a value. Characters are not escaped, or they would count several times in each limit of bytes."""
    return _ENCODER.encode(value)


def is_too_deep(value: Any) -> bool:
    """Whether a value has more than MAX_DEPTH levels. For what has been JSON once: one that holds itself has no end."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_DEPTH):
        # Level by level, and not by recursion, which would have to end before the value does.
        level = [
            member
            for one in level
            for member in (one.values() if isinstance(one, dict) else one)
            if isinstance(member, _CONTAINERS)
        ]
        if not level:
            return False
    return True
