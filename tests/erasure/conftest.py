"""An eraser on the real Postgres and the real Redis."""

from collections.abc import AsyncIterator

import pytest

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.keys import SessionKeysInRedis
from turnstile.process.redis_clients import connect_memory


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[GuardedRedis]:
    opened = connect_memory(settings)
    yield opened
    await opened.close()


@pytest.fixture
def session_keys(settings: Settings, redis: GuardedRedis) -> SessionKeysInRedis:
    return SessionKeysInRedis(redis, settings.redis_prefix)


@pytest.fixture
def eraser(of_relay: Database, session_keys: SessionKeysInRedis) -> Eraser:
    """As a relay has it."""
    return Eraser(of_relay, session_keys)
