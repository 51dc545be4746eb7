"""What the scripts of the session lock do on Redis. Without Redis: test_session_lock.py."""

import asyncio

import pytest
import redis.asyncio

from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Extension, Guard, LockedSession, Release, SessionLock, name_lock

LEASE_SECONDS = 20.0


@pytest.fixture
def database_url() -> str:
    """No database is needed."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With a lease that no test outlasts."""
    return settings.model_copy(update={"lease_seconds": LEASE_SECONDS})


@pytest.fixture
def ours(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "ours")


@pytest.fixture
def theirs(settings: Settings) -> LockedSession:
    """The same session's lock, with the token of another worker."""
    return name_lock(settings, "t", "s", "theirs")


async def test_a_free_session_is_locked_under_the_token_for_a_lease(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession
) -> None:
    assert await lock.acquire(ours) is Guard.LOCKED
    assert await keys.get(ours.key) == "ours"
    assert 0 < await keys.pttl(ours.key) <= LEASE_SECONDS * 1000


async def test_of_sixty_workers_at_once_one_gets_the_lock(lock: SessionLock, settings: Settings) -> None:
    asked = [name_lock(settings, "t", "s", f"w-{number}") for number in range(60)]

    guards = await asyncio.gather(*map(lock.acquire, asked))

    assert sorted(guards) == [Guard.BUSY] * 59 + [Guard.LOCKED]


async def test_a_second_worker_leaves_a_waiting_mark_that_expires(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession, theirs: LockedSession
) -> None:
    await lock.acquire(theirs)

    assert await lock.acquire(ours) is Guard.BUSY
    assert await keys.get(theirs.key) == "theirs"
    assert 0 < await keys.pttl(theirs.waiting_key) <= LEASE_SECONDS * 1000


@pytest.mark.parametrize("leases", [1.9, 2.1, None])
async def test_a_lock_that_outlives_two_leases_belongs_to_no_worker(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession, theirs: LockedSession, leases: float | None
) -> None:
    await lock.acquire(theirs)
    if leases is None:
        await keys.persist(theirs.key)
    else:
        await keys.pexpire(theirs.key, int(leases * LEASE_SECONDS * 1000))

    found = await lock.acquire(ours)

    assert found is (Guard.BUSY if leases == 1.9 else Guard.FOREIGN)
    # Never taken away: it may be the lock of a worker with a much longer lease.
    assert await keys.get(theirs.key) == "theirs"
    assert await lock.extend([ours]) == [Extension.LOST]


async def test_a_repeated_acquire_after_a_lost_response_gets_the_lock_and_leaves_no_mark(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession
) -> None:
    await lock.acquire(ours)
    await keys.pexpire(ours.key, 10_000)

    assert await lock.acquire(ours) is Guard.LOCKED
    assert await keys.pttl(ours.key) > 10_000
    assert await keys.get(ours.waiting_key) is None


async def test_a_waiting_mark_is_reported_once_and_the_lock_stays_meanwhile(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession, theirs: LockedSession
) -> None:
    await lock.acquire(ours)
    for _ in range(3):
        await lock.acquire(theirs)

    assert await lock.release(ours) is Release.LOOK_AGAIN
    assert await keys.mget(ours.key, ours.waiting_key) == ["ours", None]
    assert 0 < await keys.pttl(ours.key) <= LEASE_SECONDS * 1000
    assert await lock.release(ours) is Release.RELEASED
    assert await keys.get(ours.key) is None


async def test_the_lock_of_another_worker_is_not_released(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession, theirs: LockedSession
) -> None:
    await lock.acquire(theirs)
    await lock.acquire(ours)

    assert await lock.release(ours) is Release.LOST
    assert await keys.get(theirs.key) == "theirs"
    assert await keys.get(theirs.waiting_key) is not None


async def test_a_flushed_lock_is_lost_and_can_be_acquired_by_another_worker(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession, theirs: LockedSession
) -> None:
    await lock.acquire(ours)
    await keys.delete(ours.key)

    assert await lock.acquire(theirs) is Guard.LOCKED
    assert await lock.release(ours) is Release.LOST
    assert await keys.get(theirs.key) == "theirs"


async def test_a_lock_that_is_not_extended_expires(
    lock: SessionLock, keys: redis.asyncio.Redis, ours: LockedSession, theirs: LockedSession
) -> None:
    await lock.acquire(theirs)
    await keys.pexpire(theirs.key, 50)

    async def free() -> bool:
        return await lock.acquire(ours) is Guard.LOCKED

    await until(free)


async def test_several_locks_are_extended_at_once_with_a_result_for_each(
    lock: SessionLock, keys: redis.asyncio.Redis, settings: Settings
) -> None:
    held = [name_lock(settings, "t", f"s-{number}", "ours") for number in range(3)]
    await lock.acquire(held[0])
    await lock.acquire(name_lock(settings, "t", "s-1", "theirs"))
    await keys.pexpire(held[0].key, 10_000)

    assert await lock.extend(held) == [Extension.EXTENDED, Extension.LOST, Extension.RETAKEN]
    assert await keys.mget(one.key for one in held) == ["ours", "theirs", "ours"]
    assert await lock.acquire(name_lock(settings, "t", "s-2", "theirs")) is Guard.BUSY
    assert await keys.pttl(held[0].key) > 10_000
    assert 0 < await keys.pttl(held[2].key) <= LEASE_SECONDS * 1000
