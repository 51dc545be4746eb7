"""Several reads in one snapshot."""

import asyncio
from typing import LiteralString

import psycopg
import pytest

from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError

COUNT: LiteralString = "SELECT count(*)::int AS n FROM sessions"
# Whoever holds the lock makes the reads wait between the first and the last.
WAIT: LiteralString = "SELECT pg_advisory_xact_lock_shared(4711)"
ADD: LiteralString = "INSERT INTO sessions (tenant_id, session_id) VALUES ('t', gen_random_uuid()::text)"
WAITERS: LiteralString = "SELECT count(*)::int AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def test_what_is_committed_between_the_reads_is_in_none_of_them(database: Database) -> None:
    async with database.connection() as other:
        await other.execute("SELECT pg_advisory_lock(4711)")
        reading = asyncio.create_task(database.fetch_snapshot([(COUNT, {}), (WAIT, {}), (COUNT, {})]))

        async def waits() -> bool:
            return bool((await database.fetch(WAITERS, {}))[0]["n"])

        await until(waits)
        await database.fetch(ADD, {})
        await other.execute("SELECT pg_advisory_unlock(4711)")

    assert await reading == [[{"n": 0}], [{"pg_advisory_xact_lock_shared": ""}], [{"n": 0}]]
    assert await database.fetch_snapshot([(COUNT, {})]) == [[{"n": 1}]]


async def test_it_writes_nothing(database: Database) -> None:
    # What a failover leaves behind refuses writes in the same words.
    with pytest.raises(DatabaseUnavailableError, match="read-only transaction"):
        await database.fetch_snapshot([(COUNT, {}), (ADD, {})])

    assert await database.fetch(COUNT, {}) == [{"n": 0}]


async def test_a_read_that_fails_leaves_the_connection_in_order(database: Database) -> None:
    for _ in range(6):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await database.fetch_snapshot([(COUNT, {}), ("SELECT 1 / %(zero)s::int AS n", {"zero": 0})])
        await database.fetch(ADD, {})

    assert await database.fetch_snapshot([(COUNT, {})]) == [[{"n": 6}]]


async def test_a_migration_between_two_calls_is_not_noticed(database: Database) -> None:
    every: LiteralString = "SELECT * FROM sessions"
    for column in ("one", "two"):
        # Each connection of the pool has the plan of the earlier columns.
        await asyncio.gather(*(database.fetch_snapshot([(COUNT, {}), (every, {})]) for _ in range(8)))
        await database.fetch(f"ALTER TABLE sessions ADD COLUMN {column} int", {})  # type: ignore[arg-type] # one of two words

    assert await database.fetch_snapshot([(COUNT, {}), (every, {})]) == [[{"n": 0}], []]
