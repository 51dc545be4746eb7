"""What JSON is like once it is stored: how much it takes up, and whether it can be read again. Pure.

jsonb keeps a number as a numeric, which Postgres prints without an exponent: `1e308` has 5 characters where it is sent and 309
where it is read. A limit on the text that comes in is none on what comes out.
"""

import json
import re
from typing import Any

MAX_DEPTH = 200
"""Levels of nested arrays and objects in what a handler gives away. What writes the API's answers gives up at 255, and answers
have levels of their own; and a value that is written by a call at the stack's bottom may be read by one near its top."""

_CONTAINERS = (dict, list, tuple)

# As Python writes it. In a string it only costs a second look.
_EXPONENT = re.compile(r"\de[+-]\d")


def count_number(number: str) -> int:
    """The characters of a JSON number as Postgres prints it. Printed it must not be for that: its exponent may say gigabytes."""
    mantissa, _, exponent = number.lower().removeprefix("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    decimals = len(fraction) - int(exponent or 0)
    digits = len((whole + fraction).lstrip("0"))
    # Zero has no sign there.
    sign = number.startswith("-") and digits > 0
    before_point = max(1, digits - decimals) if digits else 1
    return sign + before_point + (1 + decimals if decimals > 0 else 0)


def count_characters(text: str) -> int:
    """The characters of a JSON text that Python has written, with its numbers as Postgres prints them."""
    if _EXPONENT.search(text) is None:
        return len(text)
    grown = 0

    def grow(number: str) -> float:
        nonlocal grown
        grown += count_number(number) - len(number)
        return 0.0

    json.loads(text, parse_float=grow)
    return len(text) + grown


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
