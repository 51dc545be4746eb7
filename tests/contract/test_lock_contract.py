"""What the session lock needs of Redis, asked of the real one and of the simulation's stand-in alike."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import pytest
import redis

from tests.support.fakes.lock import Direct, FakeClient, FakeRedis
from tests.support.probes import until
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.redis_clients import connect_lock
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Extension, Guard, LockedSession, Release, SessionLock, name_lock

LEASE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Locks:
    """The product's two hands on one Redis, and a look at it from outside."""

    lock: SessionLock
    get: Callable[[str], str | None]
    pttl: Callable[[str], int]
    flush: Callable[[], object]
    expire: Callable[[str, int], object]
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
    """The same hands, on either."""
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
            settings=settings,
        )
        yield made
        await guarded.close()
        looking.close()
        return
    settings = _settings("redis://127.0.0.1:1/0")
    server = FakeRedis(asyncio.get_running_loop().time)
    yield Locks(
        lock=SessionLock(settings, Guarded("lock", FakeClient(server, Direct()), 1.0)),
        get=server.get,
        pttl=server.pttl,
        flush=server.flush,
        expire=server.pexpire,
        settings=settings,
    )


async def test_a_free_session_is_locked_under_the_token_for_a_lease(locks: Locks) -> None:
    ours = locks.name("ours")

    assert await locks.lock.acquire(ours) is Guard.LOCKED
    assert locks.get(ours.key) == "ours"
    assert 0 < locks.pttl(ours.key) <= LEASE_SECONDS * 1000


async def test_of_many_who_come_at_once_one_gets_the_lock(locks: Locks) -> None:
    guards = await asyncio.gather(*(locks.lock.acquire(locks.name(f"w-{n}")) for n in range(60)))

    assert sorted(guards) == [Guard.BUSY] * 59 + [Guard.LOCKED]


async def test_a_busy_session_keeps_its_holder_and_gets_a_mark_that_ends_by_itself(locks: Locks) -> None:
    theirs = locks.name("theirs")
    await locks.lock.acquire(theirs)

    assert await locks.lock.acquire(locks.name("ours")) is Guard.BUSY
    assert locks.get(theirs.key) == "theirs"
    assert 0 < locks.pttl(theirs.waiting_key) <= LEASE_SECONDS * 1000


async def test_a_lock_whose_answer_was_lost_is_taken_by_asking_again_and_leaves_no_mark(locks: Locks) -> None:
    ours = locks.name("ours")
    await locks.lock.acquire(ours)
    locks.expire(ours.key, 10_000)

    assert await locks.lock.acquire(ours) is Guard.LOCKED
    assert locks.pttl(ours.key) > 10_000
    assert locks.get(ours.waiting_key) is None


async def test_whoever_waits_is_heard_once_and_the_lock_stays_meanwhile(locks: Locks) -> None:
    ours = locks.name("ours")
    await locks.lock.acquire(ours)
    await locks.lock.acquire(locks.name("theirs"))

    assert await locks.lock.release(ours) is Release.LOOK_AGAIN
    assert (locks.get(ours.key), locks.get(ours.waiting_key)) == ("ours", None)
    assert await locks.lock.release(ours) is Release.RELEASED
    assert locks.get(ours.key) is None


async def test_nobody_gives_back_the_lock_of_another(locks: Locks) -> None:
    theirs = locks.name("theirs")
    await locks.lock.acquire(theirs)

    assert await locks.lock.release(locks.name("ours")) is Release.LOST
    assert locks.get(theirs.key) == "theirs"


async def test_a_lock_that_was_flushed_is_lost_and_can_be_taken_by_another(locks: Locks) -> None:
    ours, theirs = locks.name("ours"), locks.name("theirs")
    await locks.lock.acquire(ours)
    locks.flush()

    assert await locks.lock.acquire(theirs) is Guard.LOCKED
    assert await locks.lock.release(ours) is Release.LOST
    assert locks.get(ours.key) == "theirs"


async def test_a_lock_that_nobody_extends_is_free_after_its_time(locks: Locks) -> None:
    theirs = locks.name("theirs")
    await locks.lock.acquire(theirs)
    locks.expire(theirs.key, 50)

    async def free() -> bool:
        return await locks.lock.acquire(locks.name("ours")) is Guard.LOCKED

    await until(free)


async def test_many_locks_are_extended_at_once_and_each_is_told_its_own(locks: Locks) -> None:
    held = [locks.name("ours", f"s-{number}") for number in range(3)]
    await locks.lock.acquire(held[0])
    await locks.lock.acquire(locks.name("theirs", "s-1"))
    locks.expire(held[0].key, 10_000)

    assert await locks.lock.extend(held) == [Extension.EXTENDED, Extension.LOST, Extension.RETAKEN]
    assert [locks.get(lock.key) for lock in held] == ["ours", "theirs", "ours"]
    assert locks.pttl(held[0].key) > 10_000
    assert 0 < locks.pttl(held[2].key) <= LEASE_SECONDS * 1000
