"""The keys of the session lock, and an outage of Redis. With Redis: test_session_lock_scripts.py."""

import asyncio
import signal

import pytest
from redis.crc import key_slot

from tests.support.probes import until
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


def test_lock_and_mark_are_in_one_slot_of_a_cluster(ours: LockedSession) -> None:
    assert key_slot(ours.key.encode()) == key_slot(ours.waiting_key.encode())


def test_the_key_has_the_prefix_and_names_tenant_and_session(settings: Settings, ours: LockedSession) -> None:
    assert ours.key == f"{settings.redis_prefix}lock:session:{{t/s}}"


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
