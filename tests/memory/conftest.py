"""Working memories as handlers have them: a claimed turn, the real Postgres and the real Redis."""

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.memory.session_memory import Room
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.memory.working_memory import WorkingMemory


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
async def room(settings: Settings, database: Database, keys: redis.asyncio.Redis) -> AsyncIterator[Room]:
    """A session with a turn RUNNING, and what can happen to it."""
    opened = Room(settings, database, keys)
    await opened.begin()
    yield opened
    await opened.close()


@pytest.fixture
def memory(room: Room) -> WorkingMemory:
    return room.memory
