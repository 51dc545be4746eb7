"""The release of a session lock while Redis does not respond: it is tried once, and its result is unknown."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.support.redis_hands import OwnSessionLock
from tests.support.stacks.stack import Stack
from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.redis.connect import connect
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Guard, LockedSession, Release, SessionLock, name_lock


@pytest.fixture
def database_url() -> str:
    """No database is needed."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


@pytest.fixture
async def lock(settings: Settings, cable: Cable) -> AsyncIterator[SessionLock]:
    """Locks on a Redis behind the cable."""
    opened = OwnSessionLock(settings.model_copy(update={"redis_url": at_port(settings.redis_url, cable.port)}))
    yield opened
    await opened.close()


@pytest.fixture
def ours(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "ours")


@pytest.fixture
def theirs(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "theirs")


async def test_a_release_is_tried_although_the_circuit_is_open(
    settings: Settings, cable: Cable, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    """The lock would turn away every wake-up of its session for a lease."""
    for_long = Circuit(first_pause_seconds=600.0, longest_pause_seconds=600.0)
    client = connect(at_port(settings.redis_url, cable.port), settings.redis_timeout_seconds)
    lock = SessionLock(settings, GuardedRedis("lock", client, settings.redis_timeout_seconds, circuit=for_long))
    await lock.acquire(ours)
    await cable.cut()
    assert await lock.acquire(theirs) is Guard.UNANSWERED
    await cable.plug_in()

    assert await lock.acquire(theirs) is Guard.UNGUARDED
    assert await lock.release(ours) is Release.RELEASED
    assert not await keys.exists(ours.key)
    await client.aclose()


async def test_a_release_whose_response_was_lost_is_not_repeated(
    lock: SessionLock, cable: Cable, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    """The first call clears the waiting mark; a second one would not find it and would release the session."""
    await lock.acquire(ours)
    assert await lock.acquire(theirs) is Guard.BUSY
    cable.lose_after = b"'DEL', KEYS[2]"

    assert await lock.release(ours) is Release.UNKNOWN

    assert await keys.get(ours.key) == "ours"
    assert not await keys.exists(ours.waiting_key)
