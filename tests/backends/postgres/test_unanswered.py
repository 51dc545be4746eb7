"""For how long a process's calls of Postgres have had no answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import psycopg
import pytest

from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.unanswered import RECENT_SECONDS, Unanswered
from turnstile.errors import DatabaseUnavailableError, RowLockedError


def test_nothing_is_unanswered_while_nobody_asks() -> None:
    assert Unanswered().seconds(1000.0) == 0.0


def test_a_call_is_unanswered_for_as_long_as_it_waits() -> None:
    calls = Unanswered()
    calls.asked(1000.0)
    calls.asked(1004.0)

    assert calls.seconds(1007.0) == 7.0
    calls.answered(1008.0)
    calls.ended()
    assert calls.seconds(1009.0) == 1.0
    calls.answered(1010.0)
    calls.ended()
    assert calls.seconds(1011.0) == 0.0


def test_calls_that_fail_and_are_made_again_count_from_the_first() -> None:
    calls = Unanswered()
    for began in range(1000, 1060, 6):
        calls.asked(began)
        calls.failed(began + 5.0)
        calls.ended()

    assert calls.seconds(1060.0) == 60.0


def test_a_failed_call_that_nobody_makes_again_counts_for_a_while() -> None:
    calls = Unanswered()
    calls.asked(1000.0)
    calls.failed(1005.0)
    calls.ended()

    assert calls.seconds(1005.0 + RECENT_SECONDS) == 0.0
    calls.asked(2000.0)
    assert calls.seconds(2001.0) == 1.0


def test_a_cancelled_call_is_not_a_failure() -> None:
    calls = Unanswered()
    calls.asked(1000.0)
    calls.ended()

    assert calls.seconds(1000.5) == 0.0


@pytest.fixture
async def single(database_url: str) -> AsyncIterator[Database]:
    """One connection, which a call gets within a tenth of a second or not at all."""
    async with Database(
        DatabasePlace(database_url), "test", size=1, wait_seconds=0.1, lock_timeout_seconds=0.05
    ) as opened:
        await opened.ping()
        yield opened


async def ask(database: Database, seconds: float) -> None:
    """Asks again and again, for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(DatabaseUnavailableError):
            await database.ping()


async def test_calls_that_get_no_connection_are_unanswered(single: Database) -> None:
    began = time.monotonic()
    async with single.connection():
        await ask(single, 0.5)
        assert 0.4 < single.unanswered_for() <= time.monotonic() - began

    await single.ping()
    assert single.unanswered_for() == 0.0


async def test_a_lock_that_is_refused_is_an_answer(single: Database, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE workers")
        with pytest.raises(RowLockedError):
            await single.fetch("SELECT * FROM workers", {})

    assert single.unanswered_for() == 0.0


async def test_a_server_that_refuses_connections_answers() -> None:
    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.1) as refused:
        began = time.monotonic()
        asking = asyncio.create_task(ask(refused, 20.0))

        await until(lambda: 0.0 < refused.unanswered_for() < time.monotonic() - began - 1.0)
        asking.cancel()
