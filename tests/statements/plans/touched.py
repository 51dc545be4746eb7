"""Plans of statements by EXPLAIN, and the rows and pages that a statement reads by EXPLAIN ANALYZE."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.sql import SQL, Composable, Identifier, Literal

from turnstile.backends.postgres.array_literal import array_literal
from turnstile.backends.postgres.placeholders import number_placeholders

_LOOKED_AT = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter", "Rows Removed by Index Recheck")
_NAMED = ("Node Type", "Index Name", "Alias", "Index Cond", "Filter", "Join Filter")


@dataclass(frozen=True, slots=True)
class Touched:
    """What one execution reads."""

    rows: int
    """Rows that the greediest node of the plan reads, in all its loops."""
    pages: int
    """Pages that all nodes read."""
    node: str
    """The greediest node."""


def explain(connection: psycopg.Connection[Any], statement: LiteralString) -> str:
    """The plan for any parameters."""
    # Only PostgreSQL 16 and later have EXPLAIN (GENERIC_PLAN).
    _, names = number_placeholders(statement)
    values = SQL("({})").format(SQL(", ").join([SQL("NULL")] * len(names))) if names else SQL("")
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        prepare(connection, "explained", statement)
        plan = connection.execute(SQL("EXPLAIN (COSTS OFF) EXECUTE explained {}").format(values)).fetchall()
        connection.execute("DEALLOCATE explained")
    return "\n".join(line for (line,) in plan)


def prepare(connection: psycopg.Connection[Any], name: str, statement: LiteralString) -> None:
    """Prepares the statement as the product's connections do."""
    text, _ = number_placeholders(statement)
    connection.execute(SQL("PREPARE {} AS {}").format(Identifier(name), SQL(text)))


def execute(
    connection: psycopg.Connection[Any], name: str, statement: LiteralString, parameters: Mapping[str, Any]
) -> Touched:
    """Runs the prepared statement, rolls it back, and returns what it read."""
    _, names = number_placeholders(statement)
    values = SQL(", ").join([_literal(parameters[each]) for each in names])
    call = SQL("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE {}({})").format(Identifier(name), values)
    with connection.transaction(force_rollback=True):
        row = connection.execute(call).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    rows, node = max(_rows(plan), key=lambda one: one[0])
    return Touched(rows, plan["Shared Hit Blocks"] + plan["Shared Read Blocks"], node)


def _rows(plan: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    looked_at = sum(plan.get(count, 0) for count in _LOOKED_AT) * plan["Actual Loops"]
    yield round(looked_at), " ".join(str(plan[key]) for key in _NAMED if key in plan)
    for below in plan.get("Plans", ()):
        yield from _rows(below)


def _literal(value: Any) -> Composable:
    return Literal(array_literal(value) if isinstance(value, list) else value)
