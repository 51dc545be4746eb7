"""Postgres array literals, for the columns of a batch.

psycopg looks up a dumper for every element of every list: for the 16 columns of a settle batch that costs more than the round
trip of the statement. The literal is sent as untyped text, and the cast in the statement gives it its type.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from types import NoneType
from typing import Any
from uuid import UUID


def array_literal(values: Sequence[object]) -> str:
    """`{"a","b",NULL}`. Raises TypeError for an element other than None, str, bytes, bool, int, float, UUID or aware datetime."""
    kinds = set(map(type, values))
    if kinds == {str}:
        # Nearly all strings contain no quote and no backslash, and need no escapes.
        joined = '","'.join(values)  # type: ignore[arg-type]
        if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
            return '{"' + joined + '"}'
    # Nearly every column has one type: one lookup serves all its elements.
    write = _WRITERS.get(kinds.pop(), _element) if len(kinds) == 1 else _element
    return "{" + ",".join(map(write, values)) + "}"


def _element(value: object) -> str:
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(
        f"an array cannot hold a {type(value).__name__}: pass None, str, bytes, bool, int, float, UUID or datetime"
    )


def _text(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        raise TypeError("an array cannot hold a time without a zone: pass an aware datetime")
    return f'"{value.isoformat()}"'


_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _text,
    NoneType: lambda value: "NULL",
    # Without dashes: Postgres does not need them, and Python would have to insert them.
    UUID: attrgetter("hex"),
    int: str,
    bool: str,
    float: str,
    bytes: lambda value: f'"\\\\x{value.hex()}"',
    datetime: _time,
}
