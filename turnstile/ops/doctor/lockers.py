"""Finds the transactions that keep the product's tables, or rows of them, locked for longer than a moment.

A row lock is in `pg_locks` only while somebody waits for it, and the workers do not wait. But a transaction that has locked rows
keeps the weak lock of the table (RowShareLock, RowExclusiveLock) until its end, and that is in `pg_locks`.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.ops.doctor.read_database import ask
from turnstile.ops.why.decision import MARGIN_SECONDS

LOOK_AGAIN_SECONDS = 1.0

# A role sees the start of another role's transaction only as a member of pg_monitor. It reads none of the product's tables: one
# of them may be locked.
LOCKERS: LiteralString = """
SELECT l.pid, l.virtualtransaction AS transaction, a.usename AS user_name, a.application_name AS application, a.state,
       a.xact_start AS since, extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
       array_agg(DISTINCT c.relname ORDER BY c.relname) AS tables,
       bool_or(l.mode NOT LIKE 'Row%%') AS whole, NOT bool_and(l.granted) AS waits,
       CASE WHEN NOT bool_and(l.granted) THEN pg_blocking_pids(l.pid) END AS waits_for
  FROM pg_locks l
  JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r' AND pg_table_is_visible(c.oid)
       AND NOT c.relnamespace = ANY (ARRAY['pg_catalog', 'information_schema']::regnamespace[])
  JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'relation' AND l.pid <> pg_backend_pid()
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND (l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        OR l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock'))
 GROUP BY l.pid, l.virtualtransaction, a.usename, a.application_name, a.state, a.xact_start
 ORDER BY whole DESC, a.xact_start, l.pid
"""


@dataclass(frozen=True, slots=True)
class Locker:
    """A transaction of another session that has locked tables or rows, or waits for the lock of a table."""

    pid: int
    transaction: str
    user_name: str | None
    application: str | None
    state: str | None
    since: datetime | None
    """The start of the transaction; None if this role may not see it."""
    seconds: float | None
    """Its age."""
    tables: list[str]
    whole: bool
    """Whether it locks a whole table, or waits for that: nobody else can write to the table then."""
    waits: bool
    waits_for: list[int] | None
    """The processes for which it waits itself."""


async def find_lockers(database: Database) -> list[Locker]:
    """Those that lock a table for longer than a moment, and those that may have locked rows for MARGIN_SECONDS.

    Of a transaction whose age is hidden, only that it outlasts a moment. Raises DatabaseUnavailableError.
    """
    seen = await _look(database)
    if any(one.whole or one.seconds is None for one in seen):
        before = {one.transaction for one in seen}
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        seen = [one for one in await _look(database) if one.transaction in before]
    return [one for one in seen if one.whole or one.seconds is None or one.seconds >= MARGIN_SECONDS]


async def _look(database: Database) -> list[Locker]:
    return [Locker(**row) for row in await ask(database, LOCKERS, {})]
