"""A migrated Postgres whose clock only the test moves.

The schema `virtual` stands before `pg_catalog` in the search path of the product's connections. Its `now()` and
`clock_timestamp()` read a row of one table, which `Store.pass_time` changes. So the product's statements are unchanged, no lease
runs out because the machine is slow, and a test compares times to the microsecond.
"""

from datetime import UTC, datetime
from typing import Any, LiteralString

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DEFAULT_SCHEMA, DatabasePlace

START = datetime(2026, 1, 2, tzinfo=UTC)
"""The time at which each test begins."""

Snapshot = dict[str, list[dict[str, Any]]]
"""Table to rows."""

VIRTUAL_CLOCK: LiteralString = """
CREATE SCHEMA virtual;
CREATE TABLE virtual.clock (at timestamptz NOT NULL);
INSERT INTO virtual.clock VALUES ('-infinity');
CREATE FUNCTION virtual.now() RETURNS timestamptz STABLE RETURN (SELECT at FROM virtual.clock);
CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz STABLE RETURN (SELECT at FROM virtual.clock);
DO $$
DECLARE of record;
BEGIN
    FOR of IN SELECT table_name, column_name FROM information_schema.columns
               WHERE table_schema = 'turnstile' AND column_default = 'clock_timestamp()' LOOP
        EXECUTE format('ALTER TABLE turnstile.%I ALTER COLUMN %I SET DEFAULT virtual.clock_timestamp()',
                       of.table_name, of.column_name);
    END LOOP;
END $$;
"""

# Not TRUNCATE, which makes new files for each table and index: 20 ms of CPU.
RESET: LiteralString = """
DELETE FROM turns; DELETE FROM messages; DELETE FROM turn_attempts; DELETE FROM turn_values; DELETE FROM turn_traces;
DELETE FROM sessions; DELETE FROM submissions; DELETE FROM chosen_ids; DELETE FROM workers; DELETE FROM audit;
UPDATE virtual.clock SET at = %(at)s
"""

# `xmin` differs after each write of a row, also after one that changes no value.
READ: dict[str, LiteralString] = {
    "turns": "SELECT *, xmin::text FROM turns ORDER BY id",
    "sessions": "SELECT *, xmin::text FROM sessions ORDER BY tenant_id, session_id",
    "messages": "SELECT *, xmin::text FROM messages ORDER BY turn_id, ordinal",
    "turn_attempts": "SELECT *, xmin::text FROM turn_attempts ORDER BY turn_id, fence",
    "submissions": "SELECT *, xmin::text FROM submissions ORDER BY tenant_id, key",
    "chosen_ids": "SELECT *, xmin::text FROM chosen_ids ORDER BY tenant_id, turn_id",
    "turn_values": "SELECT *, xmin::text FROM turn_values ORDER BY turn_id, key",
}


class Store:
    """One connection to a database that has the clock."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def reset(self) -> None:
        """Empties the tables and sets the clock to START."""
        await self.database.fetch_pipelined([(statement, {"at": START}) for statement in RESET.split(";")])

    async def pass_time(self, seconds: float) -> None:
        statement: LiteralString = "UPDATE virtual.clock SET at = at + make_interval(secs => %(seconds)s)"
        await self.database.fetch(statement, {"seconds": seconds})

    async def snapshot(self) -> Snapshot:
        found = await self.database.fetch_pipelined([(statement, {}) for statement in READ.values()])
        return dict(zip(READ, found, strict=True))


def put_on_virtual_clock(url: str) -> DatabasePlace:
    """Gives a migrated database the clock. Connections to the returned place see it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(VIRTUAL_CLOCK)
    return DatabasePlace(url, f"{DEFAULT_SCHEMA}, virtual, pg_catalog")
