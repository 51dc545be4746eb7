"""Lists sent as Postgres array literals come back unchanged."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, LiteralString
from uuid import UUID

import pytest

from turnstile.backends.postgres.array_literal import array_literal
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.dev.stack.stack import LocalStack


def came_back(stack: LocalStack, template: str, statement: LiteralString, values: Sequence[Any]) -> list[Any]:
    async def ask() -> list[Any]:
        async with Database(DatabasePlace(stack.postgres.database_url(template)), "test", size=1) as database:
            [row] = await database.fetch(statement, {"values": list(values)})
            return list(row["values"])

    return asyncio.run(ask())


def test_the_special_characters_of_literals_are_escaped(stack: LocalStack, template: str) -> None:
    texts = ["", "NULL", "null", '"', "\\", '\\"', "{}", "a,b", " a ", "\n\t", "é 漢 🎉", None]

    assert came_back(stack, template, "SELECT %(values)s::text[] AS values", texts) == texts


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT %(values)s::uuid[] AS values", [UUID(int=7), None]),
        ("SELECT %(values)s::boolean[] AS values", [True, False, None]),
        ("SELECT %(values)s::bigint[] AS values", [2**63 - 1, -(2**63), None]),
        ("SELECT %(values)s::float8[] AS values", [0.1, 1e300, -1.5, float("inf"), 3]),
        ("SELECT %(values)s::timestamptz[] AS values", [datetime(2026, 11, 21, 1, 2, 3, 4567, UTC), None]),
        ("SELECT %(values)s::bytea[] AS values", [b'\\x\x00"{', b"", None]),
        ("SELECT %(values)s::jsonb[] AS values", [{"a": ["\\", '"', "\n"]}, None]),
        ("SELECT %(values)s::text[] AS values", []),
    ],
    ids=["uuid", "boolean", "bigint", "float8", "timestamptz", "bytea", "jsonb", "empty"],
)
def test_each_type_comes_back_as_it_was(
    stack: LocalStack, template: str, statement: LiteralString, values: list[Any]
) -> None:
    sent = [json.dumps(value) if isinstance(value, dict) else value for value in values]

    assert came_back(stack, template, statement, sent) == values


@pytest.mark.parametrize("value", [["nested"], datetime(2026, 11, 21)])  # noqa: DTZ001
def test_elements_of_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="an array cannot hold"):
        array_literal(["x", value])
