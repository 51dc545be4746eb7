"""Strict JSON parsing: accepts less than `json.loads`, so that every later reader can read the text.

Python's parser accepts text that fails later: NaN, duplicate keys (two readers may use different ones), numbers that overflow to
infinity, and U+0000 and lone surrogates, which a text column can't store and a cast to jsonb refuses. It also raises a
RecursionError for deeply nested text. Pure.
"""

import json
import math
import re
from typing import Any, NoReturn, TypeAlias

MAX_DEPTH = 32
"""Levels of nested arrays and objects."""

# The closing quote is optional. If it were required, a text with an unclosed string would be searched again from each quote,
# in quadratic time.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
# The path to a value, as a linked list of (path of the parent, step). Written as a pointer only for a fault: pointers to all
# elements of an array below long keys would take gigabytes for a megabyte of JSON.
_Way: TypeAlias = tuple["_Way", str | int] | None

_SURROGATE = re.compile("[\ud800-\udfff]")


class NotJsonError(ValueError):
    """The text is not JSON by RFC 8259, or not UTF-8."""


class RefusedJsonError(ValueError):
    """Valid JSON that can't be stored and read back unchanged. `pointer` (RFC 6901) is the place, if known."""

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
        # Only an escape can produce characters that UTF-8 can't encode, and JSON does not allow a raw U+0000.
        _refuse_unstorable(value, None)
    return value


def _refuse_depth(text: str) -> None:
    # Before parsing: deeply nested input is refused at level 33, before any object is built.
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
        # Python limits the digits of an integer, because the conversion takes quadratic time.
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
                # The pointer names the object: the response could not contain the bad key.
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


# Made once: with these arguments, `json.loads` would build a decoder for each text.
_DECODER = json.JSONDecoder(
    parse_int=_parse_int,
    parse_float=_parse_float,
    parse_constant=_refuse_constant,
    object_pairs_hook=_parse_object,
)
