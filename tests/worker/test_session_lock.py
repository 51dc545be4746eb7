"""The session lock on the real Redis: one holder, the waiting mark, and an outage of Redis."""

import asyncio
import signal

import pytest
import redis.asyncio
from redis.crc import key_slot

from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Extension, Guard, LockedSession, Release, SessionLock, name_lock

HANG_SECONDS = 20.0
"""No call may take this long: a lease would be over."""
WITHOUT_REDIS = {Guard.UNGUARDED, Guard.UNANSWERED}


@pytest.fixture
def database_url() -> str:
    """No database is needed."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
def ours(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "ours")


@pytest.fixture
def theirs(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "theirs")


# --- acquire


def test_lock_and_mark_are_in_one_slot_of_a_cluster(ours: LockedSession) -> None:
    assert key_slot(ours.key.encode()) == key_slot(ours.waiting_key.encode())


def test_the_key_has_the_prefix_and_names_tenant_and_session(settings: Settings, ours: LockedSession) -> None:
    assert ours.key == f"{settings.redis_prefix}lock:session:{{t/s}}"


# --- release


async def test_a_lock_of_another_holder_is_not_released(
    lock: SessionLock, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(theirs)
    await lock.acquire(ours)

    assert await lock.release(ours) is Release.LOST
    assert await keys.get(theirs.key) == "theirs"
    assert await keys.exists(theirs.waiting_key)


# --- time to live


async def test_every_key_expires_after_a_lease(
    ours: LockedSession, theirs: LockedSession, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    # Long enough for the looks in between.
    lock = OwnSessionLock(settings.model_copy(update={"lease_seconds": 60.0}))

    async def lives() -> list[int]:
        return [await keys.pttl(key) for key in await keys.keys(f"{settings.redis_prefix}*")]

    longest = 60_000
    await lock.acquire(ours)
    after_lock = await lives()
    await lock.acquire(theirs)
    after_mark = await lives()
    await lock.release(ours)
    after_look = await lives()

    assert [len(after_lock), len(after_mark), len(after_look)] == [1, 2, 1]
    assert all(0 < life <= longest for life in after_lock + after_mark + after_look)
    await lock.close()


# --- extend


# --- Redis is away


async def test_an_outage_of_redis_leaves_sessions_unguarded_until_it_ends(
    stack: Stack, lock: SessionLock, settings: Settings
) -> None:
    sessions = [name_lock(settings, "t", f"s-{number}", "ours") for number in range(20)]
    await lock.acquire(sessions[0])
    stack.redis.stop()
    try:
        async with asyncio.timeout(HANG_SECONDS):
            assert set(await asyncio.gather(*map(lock.acquire, sessions))) <= WITHOUT_REDIS
            assert await lock.release(sessions[0]) is Release.UNKNOWN
            assert set(await lock.extend(sessions)) == {Extension.UNKNOWN}
    finally:
        stack.redis.start()

    async def guarded() -> bool:
        return await lock.acquire(sessions[1]) is Guard.LOCKED

    await until(guarded)

    async def extended() -> bool:
        return await lock.extend([sessions[1]]) == [Extension.EXTENDED]

    await until(extended)


@pytest.mark.silent_redis
async def test_a_silent_redis_is_waited_for_briefly_and_not_for_every_turn(
    stack: Stack, lock: SessionLock, ours: LockedSession
) -> None:
    """Each try would cost two timeouts: the circuit breaker lets one through per pause."""
    await lock.acquire(ours)
    stack.redis.process.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            assert await lock.acquire(ours) is Guard.UNANSWERED
            assert await lock.extend([ours]) == [Extension.UNKNOWN]
            for _ in range(500):
                assert await lock.acquire(ours) in WITHOUT_REDIS
    finally:
        stack.redis.process.signal(signal.SIGCONT)
