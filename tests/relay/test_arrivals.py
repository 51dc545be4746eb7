"""A commit with a submit in it starts a round at once. One relay listens for that; the others look only whether one does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import psycopg
import pytest

from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay import arrivals
from turnstile.relay.arrivals import Arrivals
from turnstile.submission.callers_transaction import Submitter

Listening = Callable[[], AbstractAsyncContextManager[list[int]]]


@pytest.fixture
def listening(database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Listening:
    """A relay that listens, or waits for its turn to; the list has an entry for each round that it is asked for."""
    monkeypatch.setattr(arrivals, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(arrivals, "STOP_SECONDS", 0.05)

    @asynccontextmanager
    async def listen() -> AsyncIterator[list[int]]:
        nudges: list[int] = []
        stopping = asyncio.Event()
        running = asyncio.create_task(Arrivals(database, settings, lambda: nudges.append(1)).run(stopping))
        yield nudges
        stopping.set()
        await running

    return listen


async def listeners(database: Database) -> list[dict[str, Any]]:
    return await database.fetch(
        "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN turnstile' AND datname = current_database()", {}
    )


def submit(settings: Settings, *, commit: bool = True) -> None:
    with psycopg.connect(settings.database_url) as connection:
        Submitter(settings).submit(connection, "s", "Hello")
        if not commit:
            connection.rollback()


async def test_a_commit_asks_for_a_round_and_a_rollback_does_not(
    database: Database, settings: Settings, listening: Listening
) -> None:
    async with listening() as nudges:
        await until(lambda: listeners(database))
        submit(settings, commit=False)
        submit(settings)

        await until(lambda: nudges)

    assert nudges == [1]


async def test_a_notification_of_another_schema_asks_for_nothing(
    database: Database, settings: Settings, listening: Listening
) -> None:
    async with listening() as nudges:
        await until(lambda: listeners(database))
        await database.fetch("SELECT pg_notify('turnstile', 'another')", {})
        submit(settings)

        await until(lambda: nudges)

    assert nudges == [1]


async def test_one_relay_listens_and_another_takes_over_when_its_connection_ends(
    database: Database, settings: Settings, listening: Listening
) -> None:
    async with listening() as one, listening() as other:
        [first] = await until(lambda: listeners(database))
        submit(settings)
        await until(lambda: one or other)
        await database.fetch("SELECT pg_terminate_backend(%(pid)s)", first)

        async def taken_over() -> bool:
            return [row["pid"] for row in await listeners(database)] not in ([], [first["pid"]])

        await until(taken_over)
        before = len(one) + len(other)
        submit(settings)
        await until(lambda: len(one) + len(other) > before)

        assert len(await listeners(database)) == 1
