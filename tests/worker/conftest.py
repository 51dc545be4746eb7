"""A worker's session locks on the real Redis, and a plain client beside it."""

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.support.redis_hands import OwnSessionLock
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import SessionLock


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


@pytest.fixture
async def lasting_lock(settings: Settings) -> AsyncIterator[SessionLock]:
    """Its locks never become free because their time is over."""
    opened = OwnSessionLock(settings.model_copy(update={"lease_seconds": 600.0}))
    yield opened
    await opened.close()


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, which reads what the product has written."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened
