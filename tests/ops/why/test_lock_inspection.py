"""Looks at session locks: who has them and for how long, without changing them."""

import math

import pytest
import redis.asyncio

from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.redis.operator_client import RedisUnreachableError
from turnstile.config.settings import Settings
from turnstile.ops.why.lock_inspection import find_foreign_locks, look_at_locks
from turnstile.worker.session_lock import Guard, name_lock


async def test_a_lock_names_its_worker_and_its_time_to_live(settings: Settings, keys: redis.asyncio.Redis) -> None:
    lock = OwnSessionLock(settings.model_copy(update={"lease_seconds": 60.0}))
    try:
        ours = name_lock(settings, "t", "b", "a:worker:with-colons:token-1")
        assert await lock.acquire(ours) is Guard.LOCKED

        free, held, other = await look_at_locks(settings, [("t", "a"), ("t", "b"), ("u", "b")])
    finally:
        await lock.close()

    assert (free, other) == (None, None)
    assert held is not None
    assert (held.key, held.worker_id, 0 < held.seconds_left <= 60) == (ours.key, "a:worker:with-colons", True)
    assert await keys.get(ours.key) == ours.token
    assert await keys.exists(ours.waiting_key) == 0


async def test_locks_that_no_worker_has_set_are_found(settings: Settings, keys: redis.asyncio.Redis) -> None:
    lock = OwnSessionLock(settings)
    ours, endless, long = [name_lock(settings, "t", session, "w:1") for session in ("ours", "endless", "long")]
    try:
        assert await lock.acquire(ours) is Guard.LOCKED
        assert await lock.acquire(name_lock(settings, "t", "ours", "w:2")) is Guard.BUSY
        await keys.set(endless.key, "nobody")
        await keys.set(long.key, "nobody", ex=int(settings.lease_seconds * 3))

        found = {one.key: one.seconds_left for one in await find_foreign_locks(settings, 1000)}
    finally:
        await lock.close()

    assert found.keys() == {endless.key, long.key}
    assert found[endless.key] == math.inf


async def test_no_session_needs_no_redis(settings: Settings) -> None:
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})

    assert await look_at_locks(away, []) == []
    with pytest.raises(RedisUnreachableError):
        await look_at_locks(away, [("t", "s")])
