"""Statements that share a round trip: committed before their responses are read, and never locked for long."""

from typing import Any

import psycopg
import pytest

import turnstile.backends.postgres.database
from tests.support.claims import claim_one, submit_turns
from tests.support.probes import until
from turnstile.backends.postgres import pipeline as postgres_pipeline
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.server_version import has_transaction_timeout
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.turn.claimed_turn import ClaimedTurn


async def test_a_claim_is_committed_and_its_row_unlocked_before_the_answer_is_read(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit_turns(database, settings, "one")
    seen: list[object] = []
    read_rows = postgres_pipeline._rows

    with psycopg.connect(settings.database_url, autocommit=True) as other:

        def look_and_read(*of_a_result: Any) -> list[Any]:
            seen.append(_status_if_unlocked(other))
            return read_rows(*of_a_result)

        with monkeypatch.context() as patched:
            patched.setattr(postgres_pipeline, "_rows", look_and_read)
            turn = await claim_one(database, settings)
        seen.append(_status_if_unlocked(other))

    assert isinstance(turn, ClaimedTurn)
    assert seen == ["RUNNING"] * 3


def _status_if_unlocked(connection: psycopg.Connection[Any]) -> object:
    try:
        [(status,)] = connection.execute("SELECT status FROM turns FOR UPDATE NOWAIT").fetchall()
    except psycopg.errors.LockNotAvailable:
        return "locked"
    return status


async def test_a_process_that_is_stopped_inside_a_pipeline_keeps_its_rows_locked_for_a_bounded_time(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.backends.postgres.database, "TRANSACTION_TIMEOUT_SECONDS", 1)
    async with Database(settings.database, "stopped", size=1, pinned=True) as database:
        await submit_turns(database, settings, "one")
        with psycopg.connect(settings.database_url, autocommit=True) as other:
            if not has_transaction_timeout(other):
                pytest.skip("this PostgreSQL has no transaction timeout (ADR 0012)")
            async with database.connection() as connection:
                # As if stopped between the statement and the Sync that commits it.
                pipeline = connection.pipeline()
                await pipeline.__aenter__()
                await connection.execute("UPDATE turns SET sends = sends + 1")
                await until(lambda: _status_if_unlocked(other) == "locked")

                await until(lambda: _status_if_unlocked(other) == "PENDING")

                with pytest.raises(psycopg.OperationalError):
                    await pipeline.__aexit__(None, None, None)


async def test_the_isolation_level_does_not_depend_on_the_servers_default(settings: Settings) -> None:
    """Two that want one row wait for each other and look again; at other levels the second is refused."""
    given = psycopg.conninfo.make_conninfo(
        settings.database_url, options="-c default_transaction_isolation=serializable"
    )

    async with Database(DatabasePlace(given), "strict", size=1) as database:
        [row] = await database.fetch("SHOW transaction_isolation", {})

    assert row == {"transaction_isolation": "read committed"}


async def test_a_statement_that_the_server_ends_is_an_outage(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.backends.postgres.database, "TRANSACTION_TIMEOUT_SECONDS", 1)
    async with Database(settings.database, "slow", size=1, pinned=True) as database:
        with pytest.raises(DatabaseUnavailableError):
            await database.fetch("SELECT pg_sleep(30)", {})

        assert await database.fetch("SELECT 1 AS one", {}) == [{"one": 1}]
