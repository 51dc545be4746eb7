"""Fences and versions of memory that never come twice, whatever moment the database goes back to (ADR 0060).

A restored database, and a promoted replica that has missed the last commits, draw from sequences that have gone back, while
Redis, workers and other systems know what was drawn since. So both sequences keep up with the clock: each connection of a worker
first sets them to the microseconds since 1970, where they are behind. Nobody draws a million a second, so all that was ever drawn
lies before the moment at which it was drawn; and who connects to the database that goes on, draws from after that moment.

No restore and no promotion leaves a connection open. Where a hand has done so (pg_restore into a database in use), or where the
clock itself has gone back, `turnstile doctor` finds it: `fences-behind`.
"""

from typing import LiteralString

from turnstile.backends.postgres.database import Database

ADVANCE: LiteralString = "SELECT advance_sequences(0)"
"""For `Database(first=...)` of whoever claims turns. The function is in `sequences.sql` of migration 0001."""

_LAST_FENCE: LiteralString = """
SELECT coalesce(last_value, 0) AS fence FROM pg_sequences WHERE schemaname = current_schema() AND sequencename = 'fence_seq'
"""

MARGIN = 1_000_000
"""How far to advance beyond the highest fence that Redis has seen: others, and versions of memory, may be higher."""


async def read_last_fence(database: Database) -> int:
    """The fence that was drawn last; 0 if none ever was. Raises DatabaseUnavailableError."""
    rows = await database.fetch(_LAST_FENCE, {})
    return int(rows[0]["fence"]) if rows else 0
