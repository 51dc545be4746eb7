"""A worker's session locks on the real Redis, and a queue that exists only for tests that use it."""

from collections.abc import AsyncIterator

import pytest

from tests.support.redis_hands import OwnSessionLock
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import SessionLock


@pytest.fixture
def queue(request: pytest.FixtureRequest, fifo: bool, visibility_seconds: float) -> QueueSettings:
    """A queue that is declared and does not exist in SQS; a real one for tests that use `queues`."""
    if "queues" in request.fixturenames:
        real: QueueSettings = request.getfixturevalue("queue")
        return real
    return QueueSettings(name="turns", visibility_seconds=visibility_seconds)


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()
