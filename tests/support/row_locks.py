"""Transactions that have locked rows, as an operator in a psql does, and calls that wait for them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.outside import outside
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

HANGS = 15.0
"""A bound that only a hang would break: three time-outs of a lock."""


@contextmanager
def rows_locked(settings: Settings, on: str = "true", *, table: str = "turns") -> Iterator[psycopg.Connection]:
    """A transaction that has locked those rows, until the block ends or the test rolls it back."""
    with psycopg.connect(outside(settings.database_url)) as transaction:
        transaction.execute(f"SELECT 1 FROM {table} WHERE {on} FOR NO KEY UPDATE")  # type: ignore[call-overload]
        yield transaction
        transaction.rollback()


async def until_a_call_waits(database: Database) -> None:
    """Waits until another session of the database waits for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    await until(lambda: database.fetch(waiting, {}))
