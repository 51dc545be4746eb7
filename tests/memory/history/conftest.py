"""Histories of a session with a small cache, as one or two processes read them."""

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.support.conversations import Conversation, Reader
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings

DEPTH = 8


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A cache that is soon full."""
    return settings.model_copy(update={"history_messages": DEPTH})


@pytest.fixture
async def reader(settings: Settings, database: Database) -> AsyncIterator[Reader]:
    opened = Reader(settings, database)
    yield opened
    await opened.close()


@pytest.fixture
async def other(settings: Settings, database: Database) -> AsyncIterator[Reader]:
    opened = Reader(settings, database)
    yield opened
    await opened.close()


@pytest.fixture
def talk(settings: Settings, database: Database) -> Conversation:
    return Conversation(settings, database)


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, for looking from outside."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def key(settings: Settings) -> str:
    return f"{settings.redis_prefix}history:session:{{t/s}}"
