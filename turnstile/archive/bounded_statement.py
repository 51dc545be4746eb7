"""A statement that deletes many rows, and gives up before others have to wait for it for long."""

from typing import LiteralString

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.placeholders import Parameters
from turnstile.errors import DatabaseUnavailableError

STATEMENT_TIMEOUT_SECONDS = 4
"""Shorter than a submit waits for a lock: a submit to a session whose row the statement has locked waits, and is not refused."""
LOCK_TIMEOUT_SECONDS = 1

BOUNDS: LiteralString = f"""
SELECT set_config('statement_timeout', '{STATEMENT_TIMEOUT_SECONDS}s', true),
       set_config('lock_timeout', '{LOCK_TIMEOUT_SECONDS}s', true)
"""

_BROKEN_OFF = frozenset({"57014", "25P04", "55P03", "40P01"})
"""SQLSTATEs of the timeouts and of a deadlock: the statement changed nothing."""


async def fetch_bounded(database: Database, statement: LiteralString, parameters: Parameters) -> list[DictRow] | None:
    """The statement's rows; None if it took too long or met a lock, and then changed nothing. Raises DatabaseUnavailableError."""
    try:
        _, rows = await database.fetch_pipelined([(BOUNDS, {}), (statement, parameters)])
    except DatabaseUnavailableError as error:
        if getattr(error.__cause__, "sqlstate", None) in _BROKEN_OFF:
            return None
        raise
    return rows
