"""Transactions that lock the rows of turns, as an operator in a psql does."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from turnstile.config.settings import Settings

HANGS = 15.0
"""A bound that only a hang would break: three time-outs of a lock."""


@contextmanager
def sitting(settings: Settings, on: str) -> Iterator[psycopg.Connection]:
    """A transaction that locks those rows, until the block ends or the caller rolls back."""
    with psycopg.connect(settings.database_url) as transaction:
        transaction.execute(f"SELECT 1 FROM turns WHERE {on} FOR NO KEY UPDATE")  # type: ignore[call-overload]
        yield transaction
        transaction.rollback()
