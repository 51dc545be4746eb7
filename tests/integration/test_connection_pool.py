"""A process's connections to Postgres: as many as a busy moment needs, and one when it is quiet."""

import asyncio

import psycopg
import pytest

import turns.database
from tests.probes import until
from turns.database import Database


def opened(url: str, application: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", [application]
        ).fetchone()
    assert row is not None
    return int(row[0])


async def test_what_a_busy_moment_took_is_given_back(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns.database, "IDLE_SECONDS", 0.2)

    async with Database(database_url, "test-pool", size=4) as database:
        await asyncio.gather(*(database.fetch("SELECT pg_sleep(0.5)", {}) for _ in range(4)))
        busy = await asyncio.to_thread(opened, database_url, "test-pool")
        await until(lambda: opened(database_url, "test-pool") == 1)

    assert busy == 4
