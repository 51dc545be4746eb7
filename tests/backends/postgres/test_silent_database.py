"""A Postgres that takes what it is told and never answers: whoever asked is told that it is away, and the heartbeat goes on."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.producer.api.cable import Cable, at_port, cable_to
from tests.support.beating import Beating
from tests.support.claiming import claim_one, submit_turns
from tests.support.probes import until
from turnstile.backends.postgres import database as database_module
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.hang_detection import ANSWER_SECONDS, BoundedAsyncConnection
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.heartbeat import PATIENCE_SECONDS

HANGS_SECONDS = 60.0
"""Of something that was to be over within four seconds."""


@pytest.fixture
async def cable(settings: Settings) -> AsyncIterator[Cable]:
    async with cable_to("127.0.0.1", urlsplit(settings.database_url).port or 5432) as cable:
        yield cable


@pytest.fixture
def cabled(settings: Settings, cable: Cable) -> Settings:
    """A beat every second, and Postgres at the end of the cable."""
    url = at_port(settings.database_url, cable.port)
    return settings.model_copy(update={"database_url": url, "lease_seconds": 3.0})


async def test_a_statement_that_is_not_answered_is_an_outage(cabled: Settings, cable: Cable) -> None:
    async with Database(cabled.database_url, "test", size=1, statement_timeout_seconds=0.5) as silent:
        await silent.ping()
        cable.silent = True

        with capture_logs() as logs, pytest.raises(DatabaseUnavailableError):
            async with asyncio.timeout(HANGS_SECONDS):
                await silent.ping()

    assert [line["seconds"] for line in logs if line["event"] == "database.silent"] == [2 * 0.5 + ANSWER_SECONDS]


async def test_answers_that_come_in_time_keep_the_connection(settings: Settings) -> None:
    """However long they take together."""
    given = conninfo(settings.database_url, "test")
    async with await BoundedAsyncConnection.connect(given, autocommit=True) as connection:
        connection.patience_seconds = 1.0
        for _ in range(4):
            await connection.execute("SELECT pg_sleep(0.4)")


async def test_a_patience_that_is_less_than_before_counts_from_the_next_question_on(settings: Settings) -> None:
    # As after a pool has set a new connection up.
    given = conninfo(settings.database_url, "test")
    async with await BoundedAsyncConnection.connect(given, autocommit=True) as connection:
        connection.patience_seconds = 2 * HANGS_SECONDS
        await connection.execute("SET statement_timeout = 0")
        connection.patience_seconds = 1.0

        async with asyncio.timeout(HANGS_SECONDS):
            with pytest.raises(psycopg.OperationalError):
                await connection.execute("SELECT pg_sleep(300)")


async def test_a_pipeline_that_is_not_answered_is_an_outage(
    cabled: Settings, cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "TRANSACTION_TIMEOUT_SECONDS", 1)
    async with Database(cabled.database_url, "test", size=1, pinned=True) as silent:
        await silent.ping()
        cable.silent = True

        async with asyncio.timeout(HANGS_SECONDS):
            with pytest.raises(DatabaseUnavailableError):
                await silent.fetch_pipelined([("SELECT 1", {}), ("SELECT 2", {})])


async def test_a_server_that_speaks_again_is_asked_again(cabled: Settings, cable: Cable) -> None:
    async with Database(cabled.database_url, "test", size=1, statement_timeout_seconds=0.5) as silent:
        await silent.ping()
        cable.silent = True
        with pytest.raises(DatabaseUnavailableError):
            await silent.ping()
        cable.silent = False

        async def answered() -> bool:
            try:
                await silent.ping()
            except DatabaseUnavailableError:
                return False
            return True

        await until(answered)


async def test_the_heartbeat_goes_on_though_the_database_is_silent(
    settings: Settings,
    cabled: Settings,
    cable: Cable,
    database: Database,
    queues: MessageQueues,
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    beating = Beating(cabled, queues, await queues.find(settings.queue))
    beating.keep(turn)
    beating.heartbeat.start()
    try:
        await until(lambda: beating.beats >= 2)
        cable.silent = True
        beats = beating.beats

        with capture_logs() as logs:
            await until(lambda: beating.beats >= beats + 2, within=HANGS_SECONDS)
    finally:
        cable.silent = False
        await asyncio.to_thread(beating.heartbeat.stop, 5.0)

    assert {line["seconds"] for line in logs if line["event"] == "database.silent"} == {PATIENCE_SECONDS}
