"""Fences and versions of memory are never used twice, even after the database is set back to an earlier moment (ADR 0004).

In a restored database, or a promoted replica that lacks the last commits, the sequences have gone back, but Redis, workers and
other systems know the later values. So both sequences follow the clock: each connection of a worker first advances them to the
microseconds since 1970 if they are behind. Nothing draws a million values a second, so every value is lower than the clock at the
time it was drawn. A connection made after the restore therefore draws only higher values.

A restore or a promotion normally closes all connections. If it did not (pg_restore into a database in use), or if the clock
itself has gone back, `turnstile doctor` reports `fences-behind`.
"""

from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.table_version import COLUMNS

ADVANCE: LiteralString = f"SELECT advance_sequences(0), {COLUMNS}"
"""For `Database(first=...)` of processes that claim turns. The function is in `sequences.sql` of migration 0001."""

_LAST_FENCE: LiteralString = """
SELECT coalesce(last_value, 0) AS fence FROM pg_sequences WHERE schemaname = current_schema() AND sequencename = 'fence_seq'
"""

_ADVANCE_TO: LiteralString = "SELECT advance_sequences(%(at_least)s::bigint)"

MARGIN = 1_000_000
"""How far to advance beyond the highest fence in Redis: other fences, and versions of memory, may be higher."""


async def read_last_fence(database: Database) -> int:
    """The last fence drawn; 0 if there is none. Raises DatabaseUnavailableError."""
    rows = await database.fetch(_LAST_FENCE, {})
    return int(rows[0]["fence"]) if rows else 0


async def advance_beyond(database: Database, fence: int) -> None:
    """Advances the sequences beyond `fence`, which Redis has seen; they never go back.

    Raises DatabaseUnavailableError, or InvalidParameterValue if they would be more than 30 days ahead of the clock.
    """
    await database.fetch(_ADVANCE_TO, {"at_least": fence + MARGIN})
