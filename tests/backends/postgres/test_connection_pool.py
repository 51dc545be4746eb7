"""The connections of a process: opened as needed, closed when idle, never handed out broken."""

import asyncio
from contextlib import AsyncExitStack

import psycopg
import pytest

import turnstile.backends.postgres.database
from tests.support.probes import let_the_loop_turn, stand_still, until
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.outage import UnfitServerError
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError

PATIENCE_SECONDS = 60.0


def opened(url: str, application: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application]
        ).fetchone()
    assert row is not None
    return int(row[0])


def end_all(url: str, application: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [application]
        )


async def test_idle_connections_are_closed(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile.backends.postgres.database, "IDLE_SECONDS", 0.2)

    async with Database(DatabasePlace(database_url), "test-pool", size=4) as database:
        async with AsyncExitStack() as taken:
            for _ in range(4):
                await taken.enter_async_context(database.connection())
            busy = await asyncio.to_thread(opened, database_url, "test-pool")
        await until(lambda: opened(database_url, "test-pool") == 1)

    assert busy == 4


async def test_connections_that_the_server_has_closed_are_not_handed_out(database_url: str) -> None:
    # As at each restart: the first calls after it would fail, one for each connection that lay idle.
    async with Database(DatabasePlace(database_url), "test-pool", size=4) as database:
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.2)", {}) for _ in range(4)))
        await asyncio.to_thread(end_all, database_url, "test-pool")
        await until(lambda: opened(database_url, "test-pool") == 0)

        answers = await asyncio.gather(*(database.fetch("SELECT 1 AS one", {}) for _ in range(8)))

        assert answers == [[{"one": 1}]] * 8


async def test_a_connection_that_the_client_has_closed_is_not_handed_out(database_url: str) -> None:
    async with Database(DatabasePlace(database_url), "test-pool", size=1) as database:
        await database.fetch("SELECT 1", {})
        await database._pool._pool[0].close()

        assert await database.fetch("SELECT 1 AS one", {}) == [{"one": 1}]


async def test_a_cancellation_is_never_lost_while_a_connection_is_handed_over(database_url: str) -> None:
    async with Database(DatabasePlace(database_url), "test-pool", size=1) as database:
        for steps in range(12):
            async with database.connection():
                waiting = asyncio.create_task(database.fetch("SELECT pg_sleep(20)", {}))
                await until(lambda: database._pool.get_stats()["requests_waiting"] == 1)
            await let_the_loop_turn(steps)

            waiting.cancel()

            done, _ = await asyncio.wait({waiting}, timeout=10.0)
            waiting.cancel()
            assert (done, waiting.cancelled()) == ({waiting}, True), steps
            # The pool has its only connection again.
            assert await database.fetch("SELECT 1 AS one", {}) == [{"one": 1}]


async def test_a_call_without_a_connection_says_why_none_could_be_made(database_url: str) -> None:
    url = psycopg.conninfo.make_conninfo(database_url, password="wrong")
    async with Database(DatabasePlace(url), "test-pool", size=1, wait_seconds=1.0) as database:
        with pytest.raises(DatabaseUnavailableError, match="password authentication failed"):
            await database.fetch("SELECT 1", {})


@pytest.mark.parametrize("failure", [psycopg.OperationalError, UnfitServerError])
async def test_a_reason_is_forgotten_once_a_connection_works(database_url: str, failure: type[psycopg.Error]) -> None:
    """A pool whose connections are all in use for a moment is neither away nor unfit, whatever one attempt met long ago."""
    async with Database(DatabasePlace(database_url), "test-pool", size=1, wait_seconds=0.5) as database:
        await database.fetch("SELECT 1", {})
        database._newest.failed(failure("a failure of before"))
        await database.fetch("SELECT 1", {})

        async with database.connection():
            with pytest.raises(DatabaseUnavailableError, match="PoolTimeout"):
                await database.fetch("SELECT 1", {})


# --- too much to do, or an outage


async def hold(database: Database, end: asyncio.Event) -> None:
    async with database.connection():
        await end.wait()
        # A driver takes some steps from the arrival of a response to its result.
        await let_the_loop_turn(20)


async def test_a_call_behind_others_that_are_answered_finds_the_connections_busy(database_url: str) -> None:
    first_ends, never = asyncio.Event(), asyncio.Event()
    async with Database(DatabasePlace(database_url), "test-pool", size=1, wait_seconds=0.5) as database:
        await database.fetch("SELECT 1", {})
        holding = [asyncio.create_task(hold(database, end)) for end in (first_ends, never)]
        await until(lambda: database._pool.get_stats()["requests_waiting"] == 1)
        late = asyncio.create_task(database.fetch("SELECT 1", {}))
        await until(lambda: database._pool.get_stats()["requests_waiting"] == 2)

        first_ends.set()
        await until(late.done)

        assert isinstance(late.exception(), ConnectionsBusyError)
        never.set()
        await asyncio.gather(*holding)


async def test_a_process_that_has_no_time_to_read_its_responses_is_busy(database_url: str) -> None:
    arrives = asyncio.Event()
    async with Database(DatabasePlace(database_url), "test-pool", size=1, wait_seconds=0.3) as database:
        await database.fetch("SELECT 1", {})
        holding = asyncio.create_task(hold(database, arrives))
        await let_the_loop_turn(10)
        late = asyncio.create_task(database.fetch("SELECT 1", {}))
        await until(lambda: database._pool.get_stats()["requests_waiting"] == 1)

        arrives.set()
        stand_still(0.5)
        await until(late.done)

        assert isinstance(late.exception(), ConnectionsBusyError)
        await holding


async def test_a_call_that_waits_while_nobody_is_answered_meets_an_outage(database_url: str) -> None:
    pool = Database(DatabasePlace(database_url), "test-pool", size=1, wait_seconds=0.1)
    async with pool as database, database.connection():
        with pytest.raises(DatabaseUnavailableError) as away:
            await database.fetch("SELECT 1", {})

    assert not isinstance(away.value, ConnectionsBusyError)
