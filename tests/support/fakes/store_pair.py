"""The two stores side by side, each on a virtual clock: what the contract suite and the Hypothesis machine ask alike.

The real Postgres gets its clock by a schema that stands before `pg_catalog` in the product's search path: its `now()`,
`clock_timestamp()` and `pg_postmaster_start_time()` read a row. The product's statements are unchanged, no lease runs out
because the machine is slow, and the two stores can be compared to the microsecond.
"""

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, Protocol, cast

import psycopg

from tests.proof.chaos.audit import COLLECT, INSTALL
from tests.support.fakes.store import FakeDatabase
from tests.support.fakes.store_rows import (
    AttemptRow,
    ChosenIdRow,
    MessageRow,
    SubmissionRow,
    TurnRow,
    ValueRow,
    by_id,
    columns,
)
from tests.support.fakes.store_tables import Tables
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.place import DEFAULT_SCHEMA, DatabasePlace

ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)
START_SECONDS = 86_400.0
"""Where the virtual clock stands at first: the server was started at 0, so leases may be taken over from the beginning."""

Snapshot = dict[str, list[dict[str, Any]]]
"""Table to rows. Fences as ranks: two sequences need not be at the same number."""

VIRTUAL_CLOCK: LiteralString = """
CREATE SCHEMA virtual;
CREATE TABLE virtual.clock (at timestamptz NOT NULL, server_started_at timestamptz NOT NULL);
INSERT INTO virtual.clock VALUES ('-infinity', '-infinity');
CREATE FUNCTION virtual.now() RETURNS timestamptz STABLE RETURN (SELECT at FROM virtual.clock);
CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz STABLE RETURN (SELECT at FROM virtual.clock);
CREATE FUNCTION virtual.pg_postmaster_start_time() RETURNS timestamptz STABLE
    RETURN (SELECT server_started_at FROM virtual.clock);
DO $$
DECLARE of record;
BEGIN
    FOR of IN SELECT table_name, column_name FROM information_schema.columns
               WHERE table_schema = 'turnstile' AND column_default = 'clock_timestamp()' LOOP
        EXECUTE format('ALTER TABLE %I ALTER COLUMN %I SET DEFAULT virtual.clock_timestamp()', of.table_name, of.column_name);
    END LOOP;
END $$;
"""

# Not TRUNCATE, which makes new files for each table and index: 20 ms of CPU.
RESET: LiteralString = """
DELETE FROM turns; DELETE FROM messages; DELETE FROM turn_attempts; DELETE FROM turn_values; DELETE FROM turn_traces;
DELETE FROM sessions; DELETE FROM submissions; DELETE FROM chosen_ids; DELETE FROM workers; DELETE FROM audit;
UPDATE virtual.clock SET at = %(at)s, server_started_at = %(origin)s
"""

READ: dict[str, LiteralString] = {
    "turns": "SELECT * FROM turns ORDER BY id",
    "sessions": """SELECT tenant_id, session_id, last_seq, halted_by, created_at, updated_at FROM sessions
                    ORDER BY tenant_id, session_id""",
    "messages": "SELECT * FROM messages ORDER BY turn_id, ordinal",
    "turn_attempts": "SELECT * FROM turn_attempts ORDER BY turn_id, fence",
    "submissions": "SELECT * FROM submissions ORDER BY tenant_id, key",
    "chosen_ids": "SELECT * FROM chosen_ids ORDER BY tenant_id, turn_id",
    "turn_values": "SELECT * FROM turn_values ORDER BY turn_id, key",
    "audit": COLLECT["audit"],
}


class Stand(Protocol):
    """A store, its clock and what a test needs to see of it."""

    database: Database

    async def pass_time(self, seconds: float) -> None: ...

    async def snapshot(self) -> Snapshot: ...


class FakeStand:
    def __init__(self) -> None:
        self._seconds = START_SECONDS
        self.tables = Tables(lambda: self._seconds, ORIGIN)
        self.database = cast("Database", FakeDatabase(self.tables))

    async def pass_time(self, seconds: float) -> None:
        self._seconds += seconds

    async def snapshot(self) -> Snapshot:
        tables = self.tables
        sessions = ("tenant_id", "session_id", "last_seq", "halted_by", "created_at", "updated_at")
        snapshot: Snapshot = {
            "turns": [self._row(row, TurnRow) for row in sorted(tables.turns.values(), key=by_id)],
            "sessions": [self._times(columns(row, sessions)) for _, row in sorted(tables.sessions.items())],
            "messages": [self._row(row, MessageRow) for _, said in sorted(tables.messages.items()) for row in said],
            "turn_attempts": [
                self._row(row, AttemptRow)
                for _, ended in sorted(tables.attempts.items())
                for row in sorted(ended, key=lambda one: one.fence)
            ],
            "submissions": [self._row(row, SubmissionRow) for _, row in sorted(tables.submissions.items())],
            "chosen_ids": [self._row(row, ChosenIdRow) for _, row in sorted(tables.chosen_ids.items())],
            "turn_values": [
                self._row(row, ValueRow)
                for _, values in sorted(tables.values.items())
                for _, row in sorted(values.items())
            ],
            "audit": [columns(change, [one.name for one in fields(change)]) for change in tables.changes],
        }
        return _normal(snapshot, 0.0)

    def _row(self, row: object, kind: Any) -> dict[str, Any]:
        return self._times(columns(row, [one.name for one in fields(kind)]))

    def _times(self, row: dict[str, Any]) -> dict[str, Any]:
        return {
            name: self.tables.to_datetime(value) if name.endswith(("_at", "_until")) else value
            for name, value in row.items()
        }


class PostgresStand:
    """The real one; `put_on_virtual_clock` has been called on its database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def reset(self) -> None:
        times = {"at": ORIGIN + timedelta(seconds=START_SECONDS), "origin": ORIGIN}
        await self.database.fetch_pipelined([(statement, times) for statement in RESET.split(";")])

    async def pass_time(self, seconds: float) -> None:
        statement: LiteralString = "UPDATE virtual.clock SET at = at + make_interval(secs => %(seconds)s)"
        await self.database.fetch(statement, {"seconds": seconds})

    async def snapshot(self) -> Snapshot:
        found = await self.database.fetch_pipelined([(statement, {}) for statement in READ.values()])
        return _normal(dict(zip(READ, found, strict=True)), ORIGIN.timestamp())


def put_on_virtual_clock(url: str) -> DatabasePlace:
    """Gives a migrated database its virtual clock and the audit. Connections to the place see the clock."""
    seen = DatabasePlace(url, f"{DEFAULT_SCHEMA}, virtual, pg_catalog")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(VIRTUAL_CLOCK)
    # The audit's defaults are bound when it is made.
    with psycopg.connect(conninfo(seen, "audit"), autocommit=True) as connection:
        connection.execute(INSTALL)
    return seen


AUDIT_TIMES = ("at", "lease_until", "lease_before", "execute_at", "send_at")


def _normal(snapshot: Snapshot, origin: float) -> Snapshot:
    changes = snapshot["audit"]
    fenced = [*snapshot["turns"], *snapshot["turn_attempts"], *snapshot["turn_values"], *changes]
    rank = {None: None, **{fence: place for place, fence in enumerate(sorted({0, *(row["fence"] for row in fenced)}))}}
    transactions = {txid: place for place, txid in enumerate(sorted({row["txid"] for row in changes}), 1)}
    for row in fenced:
        row["fence"] = rank[row["fence"]]
    for row in changes:
        row["fence_before"] = rank[row["fence_before"]]
        row["txid"] = transactions[row["txid"]]
        # Microseconds: what is left of a time since 1970 in a double is a little less exact than that.
        row.update({name: row[name] and round((row[name] - origin) * 1e6) for name in AUDIT_TIMES})
    # In one transaction, only the order within each row means something.
    changes.sort(key=lambda row: (row["txid"], row["turn_id"], row["n"]))
    for row in changes:
        del row["n"]
    return snapshot
