"""A Postgres that accepts data and never responds: calls fail like in an outage, and the heartbeat goes on."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

import turnstile.worker.heartbeat
from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.support.claims import claim_one, submit_turns
from tests.support.heartbeats import Beating
from tests.support.probes import until
from turnstile.backends.postgres import database as database_module
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.hang_detection import BoundedAsyncConnection
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn

HANGS_SECONDS = 60.0
"""Far longer than the limits of these tests."""


@pytest.fixture
async def cable(settings: Settings) -> AsyncIterator[Cable]:
    async with cable_to("127.0.0.1", urlsplit(settings.database_url).port or 5432) as cable:
        yield cable


@pytest.fixture
def cabled(settings: Settings, cable: Cable) -> Settings:
    """A heartbeat every half second, and Postgres behind the cable."""
    url = at_port(settings.database_url, cable.port)
    return settings.model_copy(update={"database_url": url, "lease_seconds": 1.5})


async def test_a_statement_without_a_response_is_an_outage(
    cabled: Settings, cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "ANSWER_SECONDS", 0.5)
    async with Database(cabled.database, "test", size=1, statement_timeout_seconds=0.2) as silent:
        await silent.ping()
        cable.silent = True

        with capture_logs() as logs, pytest.raises(DatabaseUnavailableError):
            async with asyncio.timeout(HANGS_SECONDS):
                await silent.ping()

    assert [line["seconds"] for line in logs if line["event"] == "database.silent"] == [2 * 0.2 + 0.5]


async def test_the_limit_is_per_response(settings: Settings) -> None:
    given = conninfo(settings.database, "test")
    async with await BoundedAsyncConnection.connect(given, autocommit=True) as connection:
        connection.patience_seconds = 1.0
        for _ in range(3):
            await connection.execute("SELECT pg_sleep(0.4)")


async def test_after_the_silence_calls_succeed_again(cabled: Settings, cable: Cable) -> None:
    async with Database(cabled.database, "test", size=1, patience_seconds=0.5) as silent:
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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.worker.heartbeat, "PATIENCE_SECONDS", 0.6)
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

    assert {line["seconds"] for line in logs if line["event"] == "database.silent"} == {0.6}
