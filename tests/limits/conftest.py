"""The limits on the real Redis, each test under a prefix of its own."""

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from turnstile.config.settings import Settings
from turnstile.limits.fleet_limits import FleetLimits
from turnstile.process.redis_clients import connect_lock


@pytest.fixture
async def fleet(settings: Settings) -> AsyncIterator[FleetLimits]:
    redis = connect_lock(settings)
    yield FleetLimits(redis, f"{uuid4().hex}:", settings.lease_seconds)
    await redis.close()
