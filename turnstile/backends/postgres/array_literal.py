"""Postgres's own notation of an array, for a batch's columns.

psycopg looks for a dumper for every element of every list: 16 columns of a settle's batch cost it more than the statement's way
there and back. The literal goes as a text of no type; the cast in the statement says which array it is.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import attrgetter
from types import NoneType
from typing import Any
from uuid import UUID


def array_literal(values: Sequence[object]) -> str:
    """`{"a","b",NULL}`. Raises TypeError for what is no text, bytes, truth, number, UUID or aware time: none is guessed."""
    kinds = set(map(type, values))
    if kinds == {str}:
        # Texts without a quote or backslash of their own, as nearly all are, need nothing but the quotes between them.
        joined = '","'.join(values)  # type: ignore[arg-type]
        if "\\" not in joined and joined.count('"') == 2 * (len(values) - 1):
            return '{"' + joined + '"}'
    # Nearly every column is of one kind, which is then looked at once for all of it.
    write = _WRITERS.get(kinds.pop(), _element) if len(kinds) == 1 else _element
    return "{" + ",".join(map(write, values)) + "}"


def _element(value: object) -> str:
    for kind, write in _WRITERS.items():
        if isinstance(value, kind):
            return write(value)
    raise TypeError(f"no element of an array: {type(value).__name__}")


def _text(value: str) -> str:
    if "\\" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'


def _time(value: datetime) -> str:
    if value.tzinfo is None:
        raise TypeError("no element of an array: a time without a zone")
    return f'"{value.isoformat()}"'


_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _text,
    NoneType: lambda value: "NULL",
    # Without its dashes, which Postgres does not need and Python has to put in.
    UUID: attrgetter("hex"),
    int: str,
    bool: str,
    float: str,
    bytes: lambda value: f'"\\\\x{value.hex()}"',
    datetime: _time,
}
