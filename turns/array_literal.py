"""Postgres's own notation of an array, for a batch's columns.

psycopg looks for a dumper for every element of every list: 16 columns of a settle's batch cost it more than the statement's way
there and back. The literal goes as a text of no type; the cast in the statement says which array it is.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID


def array_literal(values: Sequence[object]) -> str:
    """`{"a","b",NULL}`. Raises TypeError for what is no text, bytes, truth, number, UUID or aware time: none is guessed."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if isinstance(value, str):
        if "\\" in value or '"' in value:
            value = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{value}"'
    match value:
        case None:
            return "NULL"
        case UUID():
            # Without its dashes, which Postgres does not need and Python has to put in.
            return value.hex
        case int() | float():
            return str(value)
        case bytes():
            return f'"\\\\x{value.hex()}"'
        case datetime() if value.tzinfo is not None:
            return f'"{value.isoformat()}"'
    raise TypeError(f"no element of an array: {type(value).__name__}")
