"""The session lock, on the real Redis: who is on a session, who waits, and what happens when Redis is away."""

import asyncio
import signal
from collections.abc import AsyncIterator

import pytest
import redis.asyncio
from redis.crc import key_slot

from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Extension, Guard, LockedSession, Release, SessionLock, name_lock

HANG_SECONDS = 20.0
WITHOUT_REDIS = {Guard.UNGUARDED, Guard.UNANSWERED}
"""No call may take this long, whatever Redis does: a lease would be long over."""


@pytest.fixture
def database_url() -> str:
    """No database is made: nothing here asks one."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


@pytest.fixture
async def extender(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, for looking from outside."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
def ours(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "ours")


@pytest.fixture
def theirs(settings: Settings) -> LockedSession:
    return name_lock(settings, "t", "s", "theirs")


# --- taking


async def test_a_free_session_is_locked(lock: SessionLock, ours: LockedSession, keys: redis.asyncio.Redis) -> None:
    assert await lock.acquire(ours) is Guard.LOCKED
    assert await keys.get(ours.key) == "ours"


async def test_of_many_who_come_at_once_one_gets_the_lock(lock: SessionLock, settings: Settings) -> None:
    guards = await asyncio.gather(*(lock.acquire(name_lock(settings, "t", "s", f"w-{n}")) for n in range(120)))

    assert sorted(guards) == [Guard.BUSY] * 119 + [Guard.LOCKED]


async def test_a_busy_session_gets_a_waiting_mark(
    lock: SessionLock, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(theirs)

    assert await lock.acquire(ours) is Guard.BUSY
    assert await keys.get(theirs.key) == "theirs"
    assert await keys.exists(theirs.waiting_key)


async def test_a_lock_whose_answer_was_lost_is_taken_by_asking_again(
    lock: SessionLock, ours: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(ours)

    assert await lock.acquire(ours) is Guard.LOCKED
    assert not await keys.exists(ours.waiting_key)


async def test_other_sessions_and_other_tenants_are_not_in_the_way(lock: SessionLock, settings: Settings) -> None:
    names = [("t", "s"), ("t", "other"), ("other", "s")]

    guards = [await lock.acquire(name_lock(settings, tenant, session, "x")) for tenant, session in names]

    assert guards == [Guard.LOCKED] * 3


def test_lock_and_mark_live_in_one_slot_of_a_cluster(ours: LockedSession) -> None:
    assert key_slot(ours.key.encode()) == key_slot(ours.waiting_key.encode())


def test_keys_begin_with_the_prefix_and_name_tenant_and_session(settings: Settings, ours: LockedSession) -> None:
    assert ours.key == f"{settings.redis_prefix}lock:session:{{t/s}}"


# --- giving back


async def test_a_lock_is_given_back(lock: SessionLock, ours: LockedSession, keys: redis.asyncio.Redis) -> None:
    await lock.acquire(ours)

    assert await lock.release(ours) is Release.RELEASED
    assert not await keys.exists(ours.key)


async def test_whoever_waits_is_heard_once(
    lock: SessionLock, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(ours)
    for _ in range(3):
        await lock.acquire(theirs)

    assert await lock.release(ours) is Release.LOOK_AGAIN
    assert await keys.get(ours.key) == "ours"
    assert await lock.release(ours) is Release.RELEASED


async def test_nobody_gives_back_the_lock_of_another(
    lock: SessionLock, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(theirs)
    await lock.acquire(ours)

    assert await lock.release(ours) is Release.LOST
    assert await keys.get(theirs.key) == "theirs"
    assert await keys.exists(theirs.waiting_key)


async def test_a_lock_that_is_gone_is_lost(lock: SessionLock, ours: LockedSession, keys: redis.asyncio.Redis) -> None:
    await lock.acquire(ours)
    await keys.delete(ours.key)

    assert await lock.release(ours) is Release.LOST


# --- time to live


async def test_every_key_ends_by_itself_after_a_lease(
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


async def test_a_lock_that_is_not_extended_is_free_after_a_lease(
    lock: SessionLock, ours: LockedSession, theirs: LockedSession
) -> None:
    await lock.acquire(theirs)

    async def free() -> bool:
        return await lock.acquire(ours) is Guard.LOCKED

    await until(free)


# --- extending


async def test_an_extended_lock_lives_for_another_lease(
    lock: SessionLock, extender: SessionLock, ours: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(ours)
    await keys.pexpire(ours.key, 200)

    assert await extender.extend([ours]) == [Extension.EXTENDED]
    assert await keys.pttl(ours.key) > 200


async def test_a_lock_that_was_flushed_is_taken_again(
    lock: SessionLock, extender: SessionLock, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(ours)
    await keys.delete(ours.key)

    assert await extender.extend([ours]) == [Extension.RETAKEN]
    assert await lock.acquire(theirs) is Guard.BUSY
    assert await keys.pttl(ours.key) > 0


async def test_the_lock_of_another_is_left_to_it(
    lock: SessionLock, extender: SessionLock, ours: LockedSession, theirs: LockedSession, keys: redis.asyncio.Redis
) -> None:
    await lock.acquire(theirs)
    await keys.pexpire(theirs.key, 900)

    assert await extender.extend([ours]) == [Extension.LOST]
    assert await keys.get(theirs.key) == "theirs"
    assert await keys.pttl(theirs.key) <= 900


async def test_many_locks_are_extended_at_once_and_each_is_told_its_own(
    lock: SessionLock, extender: SessionLock, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    held = [name_lock(settings, "t", f"s-{number}", "ours") for number in range(3)]
    await lock.acquire(held[0])
    await keys.set(held[1].key, "theirs", px=900)

    assert await extender.extend(held) == [Extension.EXTENDED, Extension.LOST, Extension.RETAKEN]


# --- Redis is away


async def test_without_redis_a_hold_goes_on_unguarded_and_with_it_guarded_again(
    stack: Stack, lock: SessionLock, extender: SessionLock, settings: Settings
) -> None:
    sessions = [name_lock(settings, "t", f"s-{number}", "ours") for number in range(20)]
    await lock.acquire(sessions[0])
    stack.redis.stop()
    try:
        async with asyncio.timeout(HANG_SECONDS):
            assert set(await asyncio.gather(*map(lock.acquire, sessions))) <= WITHOUT_REDIS
            assert await lock.release(sessions[0]) is Release.UNKNOWN
            assert set(await extender.extend(sessions)) == {Extension.UNKNOWN}
    finally:
        stack.redis.start()

    async def guarded() -> bool:
        return await lock.acquire(sessions[1]) is Guard.LOCKED

    await until(guarded)

    async def extended() -> bool:
        return await extender.extend([sessions[1]]) == [Extension.EXTENDED]

    await until(extended)


@pytest.mark.silent_redis
async def test_a_redis_that_answers_nothing_is_not_waited_for(
    stack: Stack, lock: SessionLock, extender: SessionLock, ours: LockedSession
) -> None:
    await lock.acquire(ours)
    stack.redis.process.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            assert await lock.acquire(ours) is Guard.UNANSWERED
            assert await extender.extend([ours]) == [Extension.UNKNOWN]
    finally:
        stack.redis.process.signal(signal.SIGCONT)

    async def guarded() -> bool:
        return await lock.acquire(ours) is Guard.LOCKED

    await until(guarded)


@pytest.mark.silent_redis
async def test_a_redis_that_is_away_is_not_asked_for_every_turn(
    stack: Stack, lock: SessionLock, ours: LockedSession
) -> None:
    """Each try would cost two time-outs: the circuit lets one through per pause."""
    stack.redis.process.signal(signal.SIGSTOP)
    try:
        async with asyncio.timeout(HANG_SECONDS):
            for _ in range(500):
                assert await lock.acquire(ours) in WITHOUT_REDIS
    finally:
        stack.redis.process.signal(signal.SIGCONT)
