"""The session lock gives the same results on Redis and on the simulation's fake."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import pytest
import redis

from tests.support.fakes.lock import FakeRedis, FakeRedisClient
from tests.support.probes import until
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.process.redis_clients import connect_lock
from turnstile.worker.session_lock import Extension, Guard, LockedSession, Release, SessionLock, name_lock

LEASE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Locks:
    """The session lock on one Redis, and calls that read and change its keys."""

    lock: SessionLock
    get: Callable[[str], str | None]
    pttl: Callable[[str], int]
    flush: Callable[[], object]
    expire: Callable[[str, int], object]
    persist: Callable[[str], object]
    settings: Settings

    def name(self, token: str, session: str = "s") -> LockedSession:
        """A session's lock for a token."""
        return name_lock(self.settings, "t", session, token)


def _settings(url: str) -> Settings:
    return Settings(
        redis_url=url,
        queues=(QueueSettings(name="turns", visibility_seconds=2 * LEASE_SECONDS),),
        redis_prefix=f"{uuid4().hex[:8]}:",
        lease_seconds=LEASE_SECONDS,
    )


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.stack), "fake"])
async def locks(request: pytest.FixtureRequest) -> AsyncIterator[Locks]:
    """The same lock, on Redis and on the fake."""
    if request.param == "real":
        settings = _settings(request.getfixturevalue("stack").redis.url)
        guarded = connect_lock(settings)
        looking = redis.Redis.from_url(settings.redis_url, decode_responses=True)
        made = Locks(
            lock=SessionLock(settings, guarded),
            get=lambda key: cast("str | None", looking.get(key)),
            pttl=lambda key: cast("int", looking.pttl(key)),
            # Of this test's keys only: the server is shared.
            flush=lambda: [looking.delete(key) for key in cast("Any", looking.keys(f"{settings.redis_prefix}*"))],
            expire=looking.pexpire,
            persist=looking.persist,
            settings=settings,
        )
        yield made
        await guarded.close()
        looking.close()
        return
    settings = _settings("redis://127.0.0.1:1/0")
    server = FakeRedis(asyncio.get_running_loop().time)
    yield Locks(
        lock=SessionLock(settings, GuardedRedis("lock", FakeRedisClient(server), 1.0)),
        get=server.get,
        pttl=server.pttl,
        flush=server.flush,
        expire=server.pexpire,
        # The fake's keys all end.
        persist=lambda key: server.pexpire(key, 10**12),
        settings=settings,
    )


async def test_a_free_session_is_locked_under_the_token_for_a_lease(locks: Locks) -> None:
    ours = locks.name("ours")

    assert await locks.lock.acquire(ours) is Guard.LOCKED
    assert locks.get(ours.key) == "ours"
    assert 0 < locks.pttl(ours.key) <= LEASE_SECONDS * 1000


async def test_of_sixty_workers_at_once_one_gets_the_lock(locks: Locks) -> None:
    guards = await asyncio.gather(*(locks.lock.acquire(locks.name(f"w-{n}")) for n in range(60)))

    assert sorted(guards) == [Guard.BUSY] * 59 + [Guard.LOCKED]


async def test_a_second_worker_leaves_a_waiting_mark_that_expires(locks: Locks) -> None:
    theirs = locks.name("theirs")
    await locks.lock.acquire(theirs)

    assert await locks.lock.acquire(locks.name("ours")) is Guard.BUSY
    assert locks.get(theirs.key) == "theirs"
    assert 0 < locks.pttl(theirs.waiting_key) <= LEASE_SECONDS * 1000


@pytest.mark.parametrize("leases", [1.9, 2.1, None])
async def test_a_lock_that_outlives_two_leases_is_no_workers(locks: Locks, leases: float | None) -> None:
    theirs = locks.name("nobody")
    await locks.lock.acquire(theirs)
    if leases is None:
        locks.persist(theirs.key)
    else:
        locks.expire(theirs.key, int(leases * LEASE_SECONDS * 1000))

    found = await locks.lock.acquire(locks.name("ours"))

    assert found is (Guard.BUSY if leases == 1.9 else Guard.FOREIGN)
    # Never taken away: it may be the lock of a worker with a much longer lease.
    assert locks.get(theirs.key) == "nobody"
    assert await locks.lock.extend([locks.name("ours")]) == [Extension.LOST]


async def test_a_repeated_acquire_after_a_lost_response_gets_the_lock_and_leaves_no_mark(locks: Locks) -> None:
    ours = locks.name("ours")
    await locks.lock.acquire(ours)
    locks.expire(ours.key, 10_000)

    assert await locks.lock.acquire(ours) is Guard.LOCKED
    assert locks.pttl(ours.key) > 10_000
    assert locks.get(ours.waiting_key) is None


async def test_a_waiting_mark_is_reported_once_and_the_lock_stays_meanwhile(locks: Locks) -> None:
    ours = locks.name("ours")
    await locks.lock.acquire(ours)
    for _ in range(3):
        await locks.lock.acquire(locks.name("theirs"))

    assert await locks.lock.release(ours) is Release.LOOK_AGAIN
    assert (locks.get(ours.key), locks.get(ours.waiting_key)) == ("ours", None)
    assert 0 < locks.pttl(ours.key) <= LEASE_SECONDS * 1000
    assert await locks.lock.release(ours) is Release.RELEASED
    assert locks.get(ours.key) is None


async def test_the_lock_of_another_worker_is_not_released(locks: Locks) -> None:
    theirs = locks.name("theirs")
    await locks.lock.acquire(theirs)
    await locks.lock.acquire(locks.name("ours"))

    assert await locks.lock.release(locks.name("ours")) is Release.LOST
    assert locks.get(theirs.key) == "theirs"
    assert locks.get(theirs.waiting_key) is not None


async def test_a_flushed_lock_is_lost_and_can_be_acquired_by_another_worker(locks: Locks) -> None:
    ours, theirs = locks.name("ours"), locks.name("theirs")
    await locks.lock.acquire(ours)
    locks.flush()

    assert await locks.lock.acquire(theirs) is Guard.LOCKED
    assert await locks.lock.release(ours) is Release.LOST
    assert locks.get(ours.key) == "theirs"


async def test_a_lock_that_is_not_extended_expires(locks: Locks) -> None:
    theirs = locks.name("theirs")
    await locks.lock.acquire(theirs)
    locks.expire(theirs.key, 50)

    async def free() -> bool:
        return await locks.lock.acquire(locks.name("ours")) is Guard.LOCKED

    await until(free)


async def test_several_locks_are_extended_at_once_with_a_result_for_each(locks: Locks) -> None:
    held = [locks.name("ours", f"s-{number}") for number in range(3)]
    await locks.lock.acquire(held[0])
    await locks.lock.acquire(locks.name("theirs", "s-1"))
    locks.expire(held[0].key, 10_000)

    assert await locks.lock.extend(held) == [Extension.EXTENDED, Extension.LOST, Extension.RETAKEN]
    assert [locks.get(lock.key) for lock in held] == ["ours", "theirs", "ours"]
    assert await locks.lock.acquire(locks.name("theirs", "s-2")) is Guard.BUSY
    assert locks.pttl(held[0].key) > 10_000
    assert 0 < locks.pttl(held[2].key) <= LEASE_SECONDS * 1000
