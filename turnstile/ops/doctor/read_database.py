"""The queries of `turnstile doctor`, and the one change that it makes in Postgres."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.backends.postgres.table_version import READ_VERSION
from turnstile.errors import TurnstileError
from turnstile.statements.session_head import DUE, IS_RUNNING

STATEMENT_TIMEOUT_SECONDS = 5

# A RUNNING turn without a `send_at` is left alone, also after its lease: no relay has marked it as lost, so its worker may be
# alive and unable to renew (ADR 0003). A `send_at` would let others take the turn over.
_MAY_WAKE: LiteralString = f"({DUE} OR {IS_RUNNING} AND t.lease_until < now() AND t.send_at IS NOT NULL)"

WAKE: LiteralString = f"""
WITH free AS MATERIALIZED (
    SELECT t.id FROM turns t WHERE t.id = ANY (%(ids)s::uuid[]) AND {_MAY_WAKE} ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM free WHERE {by_key("t.id", "free.id")} AND {_MAY_WAKE}
RETURNING t.id
"""


class QuestionTooLargeError(TurnstileError):
    """A query took longer than a check of a busy system may take. Nothing was changed."""


async def ask(database: Database, statement: LiteralString, parameters: Mapping[str, Any]) -> list[DictRow]:
    """Runs one statement that can't change anything and locks nothing, for 5 s at most.

    Raises DatabaseUnavailableError or QuestionTooLargeError.
    """
    async with database.connection() as connection:
        try:
            async with connection.transaction():
                await connection.execute("SET TRANSACTION READ ONLY")
                # Of a table that the planner takes for small it would read the whole.
                await connection.execute("SET LOCAL enable_seqscan = off")
                await connection.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'")
                return await (await connection.execute(statement, parameters)).fetchall()
        except psycopg.errors.QueryCanceled as error:
            raise QuestionTooLargeError(f"took longer than {STATEMENT_TIMEOUT_SECONDS} s") from error


async def read_table_version(database: Database) -> DictRow | None:
    """The row of READ_VERSION; None where there are no tables."""
    try:
        rows = await ask(database, READ_VERSION, {})
    except psycopg.errors.UndefinedTable:
        return None
    return rows[0] if rows else None


async def wake(database: Database, turn_ids: Sequence[UUID]) -> set[UUID]:
    """Marks these turns as due, so that a relay sends their wake-ups in its next round; returns those that were marked.

    Skips locked rows and turns that are neither due nor marked as lost by a relay. Raises DatabaseUnavailableError.
    """
    return {row["id"] for row in await database.fetch(WAKE, {"ids": list(turn_ids)})}
