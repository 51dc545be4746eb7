"""A call that is cancelled, at whichever await, leaves its connection in the pool."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.probes import let_the_loop_turn
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace

SIZE = 2
WHOLE_SECONDS = 10.0
"""How long a whole pool may take to give out all its connections, including those that it must open again."""

Call = Callable[[Database], Coroutine[Any, Any, Any]]


async def one_statement(database: Database) -> None:
    await database.fetch("SELECT 1", {})


async def a_pipeline(database: Database) -> None:
    await database.fetch_pipelined([("SELECT 1", {}), ("SELECT 2", {})])


async def a_transaction(database: Database) -> None:
    async with database.connection() as connection, connection.transaction():
        await connection.execute("SELECT 1")
        await connection.execute("SELECT 2")


async def assert_whole(database: Database) -> None:
    """All connections can be taken at once."""
    async with asyncio.timeout(WHOLE_SECONDS), AsyncExitStack() as taken:
        for _ in range(SIZE):
            await taken.enter_async_context(database.connection())


@pytest.mark.parametrize("how", Cancel)
@pytest.mark.parametrize("call", [one_statement, a_pipeline, a_transaction])
async def test_a_call_that_is_cancelled_at_any_await_loses_no_connection(
    database_url: str, call: Call, how: Cancel
) -> None:
    async with Database(DatabasePlace(database_url), "test", size=1, wait_seconds=WHOLE_SECONDS) as database:
        async for _ in cancel_at_each_await(lambda: call(database), how, lambda: one_statement(database)):
            await database.ping()


@pytest.mark.parametrize("how", Cancel)
async def test_a_call_that_is_cancelled_while_it_waits_for_a_connection_loses_none(
    database_url: str, how: Cancel
) -> None:
    async def keep_it_for_a_moment() -> None:
        async with database.connection():
            await let_the_loop_turn(20)

    def ask_behind_another() -> Coroutine[Any, Any, None]:
        others.append(asyncio.create_task(keep_it_for_a_moment()))
        return one_statement(database)

    others: list[asyncio.Task[None]] = []
    async with Database(DatabasePlace(database_url), "test", size=1, wait_seconds=WHOLE_SECONDS) as database:
        async for _ in cancel_at_each_await(ask_behind_another, how):
            await database.ping()

        await asyncio.gather(*others)


@pytest.mark.parametrize("call", [one_statement, a_pipeline, a_transaction])
async def test_calls_that_many_callers_cancel_at_any_moment_lose_no_connection(database_url: str, call: Call) -> None:
    async def ask_impatiently() -> None:
        for _ in range(40):
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(0, 0.02)):
                    await call(database)

    async with Database(DatabasePlace(database_url), "test", size=SIZE, wait_seconds=WHOLE_SECONDS) as database:
        await asyncio.gather(*(ask_impatiently() for _ in range(32)))

        await assert_whole(database)
