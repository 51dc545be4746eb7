"""A heartbeat that beats every 0.1 s, and a claimed turn."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.claims import claimed, submit_turns
from tests.support.heartbeats import Beating
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A beat every 0.1 s: most tests here wait for a few."""
    return settings.model_copy(update={"lease_seconds": 0.9, "heartbeat_seconds": 0.1})


@pytest.fixture
async def beating(settings: Settings, queues: MessageQueues) -> AsyncIterator[Beating]:
    made = Beating(settings, queues, await queues.find(settings.queue))
    made.heartbeat.start()
    yield made
    await asyncio.to_thread(made.heartbeat.stop, 10.0)


@pytest.fixture
async def beating_rarely(settings: Settings, queues: MessageQueues) -> AsyncIterator[Beating]:
    """To be started by the test. Its second beat comes after the test."""
    rare = settings.model_copy(update={"lease_seconds": 600.0, "heartbeat_seconds": 200.0})
    made = Beating(rare, queues, await queues.find(settings.queue))
    yield made
    await asyncio.to_thread(made.heartbeat.stop, 10.0)


@pytest.fixture
async def turn(database: Database, settings: Settings) -> ClaimedTurn:
    await submit_turns(database, settings, "one")
    return await claimed(database, settings)
