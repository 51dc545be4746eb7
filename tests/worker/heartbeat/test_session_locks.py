"""The heartbeat extends the session locks of the turns that it renews, and no others."""

import asyncio
import threading
import time
from typing import Any, LiteralString

import pytest
import redis.asyncio
from structlog.testing import capture_logs

from tests.support.heartbeats import Beating, beats_on, lease_of
from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.held_locks import longest_hold
from turnstile.worker.session_lock import LockedSession, SessionLock, name_lock


async def test_a_lock_that_is_released_during_a_beat_is_not_retaken(
    settings: Settings, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = OwnSessionLock(settings)
    ours = name_lock(settings, "t", "s", "ours")
    await lock.acquire(ours)
    loop = asyncio.get_running_loop()
    extend = SessionLock.extend

    async def give_back(kept: HeartbeatEntry) -> None:
        kept.keeps_lock = False
        await lock.release(ours)

    async def extend_late(extender: SessionLock, *args: Any) -> Any:
        # The run ends between the beat's look at what is kept and its call. Once: a second release would hide a retaken lock.
        if kept.keeps_lock:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(give_back(kept), loop))
        return await extend(extender, *args)

    monkeypatch.setattr(SessionLock, "extend", extend_late)
    kept = beating.keep(turn, ours)
    await beats_on(beating)

    assert await keys.get(ours.key) is None
    await lock.close()


async def test_leases_are_renewed_while_a_name_lookup_of_redis_hangs(
    database: Database, beating: Beating, turn: ClaimedTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = threading.Event()

    async def extend(*_: Any) -> list[Any]:
        await asyncio.to_thread(found.wait, 60.0)
        return []

    monkeypatch.setattr(SessionLock, "extend", extend)
    beating.keep(turn, lock=LockedSession("key", "waiting", "token"))
    leases = {await lease_of(database)}

    async def renewed_often() -> bool:
        leases.add(await lease_of(database))
        return len(leases) > 4

    try:
        await until(renewed_often)
    finally:
        found.set()


@pytest.mark.parametrize("missing", [None, "workers", "paused_queues"])
async def test_the_lock_of_a_renewed_turn_is_extended_also_while_a_table_of_the_operators_is_missing(
    settings: Settings,
    database: Database,
    beating: Beating,
    turn: ClaimedTurn,
    keys: redis.asyncio.Redis,
    missing: LiteralString | None,
    superuser: Database,
) -> None:
    if missing is not None:
        await superuser.fetch(f"ALTER TABLE {missing} RENAME TO hidden", {})
    lock = await _lock(settings)
    await keys.pexpire(lock.key, 500)
    beating.keep(turn, lock)

    async def extended() -> bool:
        return bool(await keys.pttl(lock.key) > 500)

    await until(extended)


async def test_the_lock_of_a_turn_that_is_not_renewed_runs_out(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    """A worker that is cut off from Postgres must not keep a session to itself."""
    lock = await _lock(settings)
    kept = beating.keep(turn, lock, renew_until=time.monotonic())
    kept.ours_at = time.monotonic() - settings.lease_seconds

    async def gone() -> bool:
        return not await keys.exists(lock.key)

    await until(gone)


async def test_a_flushed_lock_is_retaken_and_stops_no_handler(
    settings: Settings, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    lock = await _lock(settings)
    kept = beating.keep(turn, lock)
    await keys.delete(lock.key)

    async def retaken() -> bool:
        return await keys.get(lock.key) == lock.token

    await until(retaken)
    # The waiting mark may have gone with it.
    await until(lambda: kept.look_again)
    assert beating.stops == []


async def test_a_session_whose_lock_another_worker_has_taken_is_looked_at_once_more(
    settings: Settings, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    lock = await _lock(settings)
    await keys.set(lock.key, "theirs")

    kept = beating.keep(turn, lock)

    await until(lambda: kept.look_again)
    assert beating.stops == []


async def test_a_hold_is_measured_while_it_lasts(settings: Settings, beating: Beating, turn: ClaimedTurn) -> None:
    lock = await _lock(settings)

    with capture_logs() as lines:
        kept = beating.keep(turn, lock)
        kept.held_since -= 2 * settings.session_run_seconds
        await until(lambda: any(line["event"] == "session.held" for line in lines))

    [line] = [line for line in lines if line["event"] == "session.held"]
    assert (line["key"], line["turn_id"]) == (lock.key, str(turn.id))
    now = time.monotonic()
    assert longest_hold(beating.heartbeat.entries(), now, settings.lease_seconds) > settings.session_run_seconds


async def test_redis_connections_are_not_closed_during_an_extension(
    settings: Settings, queues: MessageQueues, turn: ClaimedTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, seen = threading.Event(), threading.Event(), list[str]()

    async def extend(*_: Any) -> list[Any]:
        begun.set()
        await asyncio.to_thread(may_end.wait, 10.0)
        seen.append("extended")
        return []

    async def close(_: GuardedRedis) -> None:
        seen.append("closed")

    monkeypatch.setattr(SessionLock, "extend", extend)
    monkeypatch.setattr(GuardedRedis, "close", close)
    beating = Beating(settings, queues, await queues.find(settings.queue))
    beating.heartbeat.start()
    beating.keep(turn, lock=LockedSession("key", "waiting", "token"))
    await until(begun.is_set)

    stopping = asyncio.create_task(asyncio.to_thread(beating.heartbeat.stop, 10.0))
    may_end.set()
    await stopping

    assert seen[-1] == "closed"
    assert "extended" in seen


async def _lock(settings: Settings) -> LockedSession:
    lock, session_lock = name_lock(settings, "t", "s", "ours"), OwnSessionLock(settings)
    await session_lock.acquire(lock)
    await session_lock.close()
    return lock
