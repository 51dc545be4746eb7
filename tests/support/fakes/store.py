"""The fake store: an in-memory stand-in for `backends.postgres.database.Database` on a virtual clock, for the seeded simulation.

It knows the product's own SQL constants and does for each what the statement does, on plain rows: everything in Python
above it (claim, settle with its re-read, submit, cancel, revive, the relay) is the product's real code. That it does the
same as Postgres is checked by `tests/statements` and by the Hypothesis machine in `tests/model`.

What it leaves out: locks of rows. Each call, and each transaction of `connection()`, is one step that nothing gets between, so
no row is ever skipped for being locked, and no claim is told to look again. Two locks can be set: one on the whole table of
turns, and those of a backfill, under which each write of turns waits in vain, except renewals and marks, which skip.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.support.fakes import (
    store_cancel,
    store_children,
    store_claim,
    store_halting,
    store_on_busy,
    store_registry,
    store_relay,
    store_submit,
)
from tests.support.fakes.carry import Carry, at_once
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables
from turnstile.errors import RowLockedError
from turnstile.statements.lost_turns import MARK_LOST
from turnstile.statements.renew_lease import RENEW

STATEMENTS: dict[str, Statement] = {
    **store_submit.STATEMENTS,
    **store_on_busy.STATEMENTS,
    **store_claim.STATEMENTS,
    **store_children.STATEMENTS,
    **store_relay.STATEMENTS,
    **store_cancel.STATEMENTS,
    **store_halting.STATEMENTS,
    **store_registry.STATEMENTS,
}

WRITES_OF_TURNS = ("UPDATE turns", "INSERT INTO turns ", "DELETE FROM turns")


class FakeDatabase:
    """A process's pool of connections to the tables.

    A statement that it does not know is a LookupError; what Postgres would refuse is the psycopg error.
    """

    def __init__(self, tables: Tables, carry: Carry = at_once) -> None:
        self._tables = tables
        self._carry = carry

    async def __aenter__(self) -> "FakeDatabase":
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def unanswered_for(self) -> float:
        return 0.0

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        [rows] = await self.fetch_pipelined([(statement, parameters)])
        return rows

    async def fetch_pipelined(self, statements: Sequence[tuple[str, Parameters]]) -> list[Rows]:
        def execute() -> list[Rows]:
            with self._tables.transaction():
                return [_execute(self._tables, statement, parameters) for statement, parameters in statements]

        answers: list[Rows] = await self._carry(execute)
        return answers

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["FakeConnection"]:
        """The block is one step of the store, not to be interrupted; the response to its commit may get lost."""
        await self._carry(_nothing)
        yield FakeConnection(self._tables)
        await self._carry(_nothing)


def _execute(tables: Tables, statement: str, parameters: Parameters) -> Rows:
    found = STATEMENTS.get(statement)
    if found is None:
        raise LookupError(f"the fake store does not know this statement: {' '.join(statement.split())[:200]}")
    waits = tables.turns_locked or (tables.turns_backfilled and statement not in (RENEW, MARK_LOST))
    if waits and any(writes in statement for writes in WRITES_OF_TURNS):
        raise RowLockedError("another transaction has locked the turns")
    return found(tables, parameters)


def _nothing() -> None:
    return


class FakeCursor:
    """The rows of one statement, as an asynchronous cursor has them."""

    def __init__(self, rows: Rows) -> None:
        self._rows = iter(rows)

    async def fetchone(self) -> dict[str, Any] | None:
        return next(self._rows, None)

    async def fetchall(self) -> Rows:
        return list(self._rows)


class FakeConnection:
    """The asynchronous connection of `statements.cancel` and `ops.sessions.halted_session`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        with self._tables.transaction():
            yield

    async def execute(self, statement: str, parameters: Parameters) -> FakeCursor:
        with self._tables.transaction():
            return FakeCursor(_execute(self._tables, statement, parameters))
