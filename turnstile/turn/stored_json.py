"""JSON in the tables: its encoding, and its depth limit. Pure.

A column of type `json` keeps its text unchanged, with the order of keys, `1e308` and `-0.0`. Unlike `jsonb` it also accepts the
escapes of U+0000 and of half a surrogate pair. Every cast to `jsonb` fails at these, so they are refused
(`submission.turn_request`) or removed (`worker.attempt.reply`) before a value is stored.
"""

import json
from typing import Any

MAX_DEPTH = 200
"""Most levels of nested arrays and objects in a value from a handler. The encoder of the API's responses fails at 255 levels, and
a response adds levels of its own. A value may also be decoded with less stack left than when it was encoded."""

_CONTAINERS = (dict, list, tuple)

# Made once: json.dumps builds an encoder per call with non-default options. Not orjson, which refuses large integers.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(value: Any) -> str:
    """The JSON text of a value. Non-ASCII characters are not escaped: escapes would count as several bytes in each limit."""
    return _ENCODER.encode(value)


def is_too_deep(value: Any) -> bool:
    """Whether a value has more than MAX_DEPTH levels. Only for a value that came from JSON: a cyclic one never ends."""
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_DEPTH):
        # Level by level: recursion could exceed Python's limit before the end of the value.
        level = [
            member
            for one in level
            for member in (one.values() if isinstance(one, dict) else one)
            if isinstance(member, _CONTAINERS)
        ]
        if not level:
            return False
    return True
