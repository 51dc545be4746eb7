"""Histories of a session with a small cache, as one or two processes read them."""

from collections.abc import AsyncIterator

import pytest

from tests.support.conversations import Conversation, Reader
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

DEPTH = 8


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
def key(settings: Settings) -> str:
    return f"{settings.redis_prefix}history:session:{{t/s}}"
