"""The connection of one process to the fake store, with everything that can go wrong on it."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.proof.simulation.wires import BrokenWireError, Wire
from tests.support.fakes.store import FakeConnection, FakeDatabase
from turnstile.errors import DatabaseUnavailableError

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]


class SimulatedDatabase:
    """What `backends.postgres.database.Database` is to the product."""

    def __init__(self, shared: FakeDatabase, wire: Wire) -> None:
        self._store = shared.for_another_process()
        self._wire = wire

    async def fetch(self, statement: str, parameters: Parameters) -> Rows:
        rows: Rows = await self._ask(lambda: self._store.execute(statement, parameters))
        return rows

    async def fetch_pipelined(self, statements: Sequence[tuple[str, Parameters]]) -> list[Rows]:
        answers: list[Rows] = await self._ask(lambda: self._store.execute_pipelined(statements))
        return answers

    async def ping(self) -> None:
        await self._ask(lambda: None)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[FakeConnection]:
        """As `Database.connection`. The block is one step of the store; its commit's answer may get lost."""
        await self._ask(lambda: None)
        async with self._store.connection() as connection:
            yield connection
        await self._ask(lambda: None)

    async def _ask(self, execute: Callable[[], Any]) -> Any:
        try:
            return await self._wire.ask(execute)
        except BrokenWireError as error:
            raise DatabaseUnavailableError(str(error)) from error
