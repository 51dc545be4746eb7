"""Terms of SQL that keep a statement on the key of a row, whatever statistics the planner has (ADR 0011)."""

from typing import LiteralString


def by_key(column: LiteralString, value: LiteralString) -> LiteralString:
    """`column` equals `value`, which another row names. Never written as `=`: a nested loop over the key is then the only plan.

    Of a key of several columns only the first is compared so: PostgreSQL 15 and 16 may leave a later one out of the index's
    condition, and read all rows of the first.
    """
    return f"{column} = ANY (ARRAY[{value}])"


def off_index(column: LiteralString) -> LiteralString:
    """The value of `column`, as an expression that no index has. While few rows are RUNNING or FAILED, the planner assumes that
    their partial index is empty, and would read all of it for each id."""
    return f"('' || {column})"


INDEXED_STATUS: LiteralString = "(t.status || '')"
"""The status of turn `t` as the indexes `turns_failed_at`, `turns_waiting` and `turns_to_take_over` have it in their predicates.
An expression, so that no other statement can use these indexes."""
