"""The text of a SQLAlchemy Core statement, for `Database.fetch`. SQLAlchemy builds statements here, and runs none.

For reads whose conditions depend on options. A caller caches the text of each combination of options, because a compile
takes longer than most statements. Values are parameters: `bindparam("queue")` becomes `%(queue)s`.
"""

from collections.abc import Mapping
from typing import Any, LiteralString

from sqlalchemy import ClauseElement, ColumnElement, MetaData, bindparam, func, literal_column, text
from sqlalchemy.dialects.postgresql.base import PGDialect

from turnstile import schema

LIMIT: ColumnElement[int] = bindparam("limit")

FENCE: ColumnElement[int] = literal_column("0")
"""`.offset(FENCE)`: the planner moves no condition and no join across the subselect that has it."""

# Every connection has the schema as its search path (ADR 0037), so statements do not name it.
_UNQUALIFIED = MetaData()
TURNS, SESSIONS, TURN_TRACES = (
    table.to_metadata(_UNQUALIFIED, schema=None)  # type: ignore[arg-type] # documented, not annotated
    for table in (schema.turns, schema.sessions, schema.turn_traces)
)

# Not a driver's dialect: that of psycopg casts each parameter, and Postgres would take its type from the cast.
_DIALECT = PGDialect(paramstyle="pyformat")  # type: ignore[no-untyped-call]


def text_of(statement: ClauseElement) -> LiteralString:
    """Raises ValueError for a statement that has a value: its text would be cached with it."""
    compiled = statement.compile(dialect=_DIALECT)
    if values := [name for name, value in compiled.params.items() if value is not None]:
        raise ValueError(f"the statement has values of its own ({', '.join(values)}): make them bindparams or literals")
    return compiled.string


def given(options: Mapping[str, object]) -> frozenset[str]:
    """The names of the options that are set: what the conditions of a statement depend on. 0 and "" are set."""
    return frozenset(name for name, value in options.items() if not (value is None or value is False or value == ()))


def constant(word: LiteralString) -> ColumnElement[str]:
    """A string in the text, not a parameter: a generic plan cannot use a partial index for `status = $1`."""
    return literal_column(f"'{word}'")


def ago(seconds: str) -> ColumnElement[Any]:
    """The time so many seconds ago, by the parameter of that name."""
    return func.now() - func.make_interval(text(f"secs => :{seconds}"))
