"""Converts a statement with named placeholders to libpq's form: numbered ones, and the values in their order."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, LiteralString

from turnstile.backends.postgres.array_literal import array_literal

Parameters = Mapping[str, Any]

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")


def bound(parameters: Parameters, names: Sequence[str]) -> list[Any]:
    """The values in the order of `names`, in a form that Postgres takes."""
    values = [parameters[name] for name in names]
    return [array_literal(value) if isinstance(value, list) else value for value in values]


@cache
def number_placeholders(statement: LiteralString) -> tuple[LiteralString, tuple[str, ...]]:
    """The statement with Postgres's `$n` placeholders, and the parameter names in the order of n.

    Cached: psycopg would repeat the conversion per call for a statement of more than 4 KB, as the hottest are.
    """
    names = tuple(dict.fromkeys(_PLACEHOLDER.findall(statement)))
    return _PLACEHOLDER.sub(lambda found: f"${names.index(found[1]) + 1}", statement), names
