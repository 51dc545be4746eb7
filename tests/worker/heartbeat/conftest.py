"""A heartbeat that beats every 0.3 s, and a claimed turn."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.claims import claim_one, submit_turns
from tests.support.heartbeats import Beating
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A beat every 0.3 s: most tests here wait for a few."""
    return settings.model_copy(update={"lease_seconds": 0.9})


@pytest.fixture
async def beating(settings: Settings, queues: MessageQueues) -> AsyncIterator[Beating]:
    made = Beating(settings, queues, await queues.find(settings.queue))
    made.heartbeat.start()
    yield made
    await asyncio.to_thread(made.heartbeat.stop, 10.0)


@pytest.fixture
async def turn(database: Database, settings: Settings) -> ClaimedTurn:
    await submit_turns(database, settings, "one")
    claimed = await claim_one(database, settings)
    assert isinstance(claimed, ClaimedTurn)
    return claimed
