"""JSON as the API takes it: less than `json.loads` does, so that whatever reads it later can read it.

Python's parser accepts what fails later: NaN, duplicate keys (two readers may take different ones), numbers that overflow to
infinity, and U+0000 and lone surrogates, which no text column stores and no cast to jsonb takes. It also answers a deep text
with a RecursionError. Pure.
"""

import json
import math
import re
from typing import Any, NoReturn, TypeAlias

MAX_DEPTH = 32
"""Levels of nested arrays and objects."""

# The closing quote is optional: with it required, a text that never closes a string would be searched again from each
# of its quotes.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
# From the top down to a value; what is above comes first. Spelt out for a fault only: a pointer for each element of an array that
# is deep in long keys would be gigabytes for a megabyte.
_Way: TypeAlias = tuple["_Way", str | int] | None

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJsonError(ValueError):
    """Not JSON by RFC 8259, or not in UTF-8."""


class RefusedJsonError(ValueError):
    """JSON, but not of a kind that can be stored and read back the same. `pointer` (RFC 6901) says where, if known."""

    def __init__(self, reason: str, pointer: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.pointer = pointer


def parse(data: bytes) -> Any:
    """The value of a JSON text. Raises NotJsonError or RefusedJsonError."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise NotJsonError(f"not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise NotJsonError("Unexpected UTF-8 BOM (decode using utf-8-sig) at line 1, column 1")
    if text.count("{") + text.count("[") > MAX_DEPTH:
        _refuse_depth(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJsonError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    if "\\u" in text:
        # Only an escape can say what text in UTF-8 can't, and a raw U+0000 is no JSON.
        _refuse_unstorable(value, None)
    return value


def _refuse_depth(text: str) -> None:
    # Before parsing: a bomb of brackets is found out at its 33rd, and never builds anything.
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        match match[0]:
            case "[" | "{":
                depth += 1
                if depth > MAX_DEPTH:
                    raise RefusedJsonError(f"nested more than {MAX_DEPTH} levels deep")
            case "]" | "}":
                depth -= 1


def _parse_int(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:
        # Python's own bound: the time it takes is quadratic.
        raise RefusedJsonError(f"an integer has {len(digits)} characters, more than can be read") from None


def _parse_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise RefusedJsonError("a number is too large for a double, which ends at 1.8e308")
    return number


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is not JSON")


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise RefusedJsonError("an object has the same key twice")
    return members


def _refuse_unstorable(value: Any, way: _Way) -> None:
    match value:
        case str():
            _refuse_text(value, way)
        case list():
            for place, element in enumerate(value):
                _refuse_unstorable(element, (way, place))
        case dict():
            for key, member in value.items():
                # The object is named, not the key: the key is what can't be written.
                _refuse_text(key, way)
                _refuse_unstorable(member, (way, key))


def _refuse_text(text: str, way: _Way) -> None:
    if "\0" in text:
        raise RefusedJsonError("contains U+0000", _spell(way))
    if _SURROGATE.search(text):
        raise RefusedJsonError("contains half of a surrogate pair", _spell(way))


def _spell(way: _Way) -> str:
    steps: list[str] = []
    while way is not None:
        way, step = way
        steps.append(escape_pointer(str(step)))
    return "".join(f"/{step}" for step in reversed(steps))


def escape_pointer(key: str) -> str:
    """A key as one step of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


# Made once: `json.loads` makes a decoder for each text that it is given these for.
_DECODER = json.JSONDecoder(
    parse_int=_parse_int,
    parse_float=_parse_float,
    parse_constant=_refuse_constant,
    object_pairs_hook=_parse_object,
)
