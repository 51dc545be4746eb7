"""The heartbeat's thread: it keeps alive what the process holds, also while the event loop is blocked."""

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import redis.asyncio

from tests.statements.test_claim_races import claim_one, expire_leases, settle_one, submit_turns
from tests.support.factories import Proven
from tests.support.probes import until
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.lost_workers import LostWorkers
from turnstile.statements.cancel import cancel
from turnstile.statements.worker_registry import WorkerRecord
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.outcome import StopReason
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.kept_alive import Kept
from turnstile.worker.session_lock import LockedSession, SessionLock, name_lock


class Beating:
    """A heartbeat as the worker makes it, and what it asked for."""

    def __init__(self, settings: Settings, queues: MessageQueues, address: Any) -> None:
        self.beats = 0
        self.trouble: list[Exception] = []
        self.stops: list[StopReason] = []
        self.told: list[CancelReason | None] = []
        self.heartbeat = Heartbeat(
            settings, queues, address, asyncio.get_running_loop().call_soon_threadsafe, self._describe, self._beat_on
        )
        self._queue = settings.queue

    def hold(self, turn: ClaimedTurn, lock: LockedSession | None = None, renew_until: float = math.inf) -> Kept:
        """Begins to keep a claimed turn alive."""
        kept = Kept(lock, None)
        kept.begin(turn, self._stop, renew_until)
        self.heartbeat.take(kept)
        return kept

    def _stop(self, reason: StopReason, told: CancelReason | None = None) -> None:
        self.stops.append(reason)
        self.told.append(told)

    def _beat_on(self) -> None:
        self.beats += 1

    def _describe(self) -> WorkerRecord:
        if self.trouble:
            raise self.trouble.pop()
        return WorkerRecord(
            worker_id="worker-a", queue=self._queue, host="h", pid=1, slots=4, busy=self.beats, dwell_seconds=0.5,
            draining=False,
        )  # fmt: skip


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A beat every 0.3 s: most tests here wait for a few."""
    return settings.model_copy(update={"lease_seconds": 0.9})


@pytest.fixture
async def beating(settings: Settings, queues: MessageQueues) -> AsyncIterator[Beating]:
    made = Beating(settings, queues, await queues.find(settings.queue))
    made.heartbeat.start()
    yield made
    await asyncio.to_thread(made.heartbeat.stop, 10.0)


@pytest.fixture
async def turn(database: Database, settings: Settings) -> ClaimedTurn:
    await submit_turns(database, settings, "one")
    claimed = await claim_one(database, settings)
    assert isinstance(claimed, ClaimedTurn)
    return claimed


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


async def lease_of(database: Database) -> Any:
    return (await database.fetch("SELECT lease_until FROM turns", {}))[0]["lease_until"]


async def beats_on(beating: Beating, times: int = 3) -> None:
    """Waits until it has beaten that often from now on: the beat under way may have begun before."""
    enough = beating.beats + times
    await until(lambda: beating.beats >= enough)


def block_loop_until(condition: Callable[[], bool]) -> None:
    """Keeps the event loop's thread to itself, as a careless handler does."""
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline


# --- locks that are given back


async def test_a_lock_that_is_given_back_while_the_beat_is_under_way_is_not_taken_again(
    settings: Settings, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = OwnSessionLock(settings)
    ours = name_lock(settings, "t", "s", "ours")
    await lock.acquire(ours)
    loop = asyncio.get_running_loop()
    extend = SessionLock.extend

    async def give_back(kept: Kept) -> None:
        kept.keeps_lock = False
        await lock.release(ours)

    async def extend_late(extender: SessionLock, *args: Any) -> Any:
        # The hold is over between the beat's look at what is kept and its call.
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(give_back(kept), loop))
        return await extend(extender, *args)

    monkeypatch.setattr(SessionLock, "extend", extend_late)
    kept = beating.hold(turn, ours)
    await beats_on(beating)

    assert await keys.get(ours.key) is None
    await lock.close()


# --- leases


async def test_a_lease_is_renewed_while_somebody_sits_on_the_row_that_tells_of_the_worker(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    await until(lambda: beating.beats > 1)
    with psycopg.connect(settings.database_url) as somebody:
        assert somebody.execute("SELECT FROM workers FOR UPDATE").rowcount == 1
        beating.hold(turn)
        first = await lease_of(database)

        async def renewed_past_its_first_lease() -> bool:
            [row] = await database.fetch(
                "SELECT lease_until > now() AND %(first)s::timestamptz < now() AS so FROM turns", {"first": first}
            )
            return bool(row["so"])

        await until(renewed_past_its_first_lease)


async def test_a_lease_is_renewed_while_the_event_loop_is_blocked(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.hold(turn)
    first = await lease_of(database)
    with psycopg.connect(settings.database_url, autocommit=True) as connection:

        def renewed_past_its_first_lease() -> bool:
            found = connection.execute("SELECT lease_until > now() AND %s < now() FROM turns", [first]).fetchone()
            return found == (True,)

        block_loop_until(renewed_past_its_first_lease)

    assert beating.stops == []


async def test_a_turn_that_is_dropped_is_renewed_no_more(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    kept = beating.hold(turn)
    await beats_on(beating)

    beating.heartbeat.drop(kept)

    await until(lambda: _taken_over(database, settings))


async def test_a_turn_past_its_time_is_renewed_no_more_whatever_its_handler_does(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.hold(turn, renew_until=time.monotonic())

    await until(lambda: _taken_over(database, settings))
    await beats_on(beating)

    assert beating.stops == []


async def _taken_over(database: Database, settings: Settings) -> bool:
    await LostWorkers(database, settings, Proven()).mark()
    return isinstance(await claim_one(database, settings, "worker-b"), ClaimedTurn)


async def test_a_refused_renewal_stops_the_attempt(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    await expire_leases(database)
    await until(lambda: _taken_over(database, settings))

    beating.hold(turn)

    await until(lambda: beating.stops)
    assert set(beating.stops) == {StopReason.SUPERSEDED}


async def test_a_cancel_stops_the_attempt_and_its_lease_is_kept_for_the_settle(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.hold(turn)
    await cancel(database, "t", turn.id, CancelReason.USER)

    await until(lambda: beating.stops)

    before = await lease_of(database)

    async def renewed() -> bool:
        return bool(await lease_of(database) > before)

    await until(renewed)
    assert set(beating.stops) == {StopReason.CANCELED}


async def test_the_attempt_is_told_why_as_the_row_has_it(
    database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.hold(turn)
    await cancel(database, "t", turn.id, CancelReason.SUPERSEDED)

    await until(lambda: beating.stops)

    assert set(beating.told) == {CancelReason.SUPERSEDED}


async def test_a_nudge_makes_it_look_at_a_turn_at_once(
    settings: Settings, queues: MessageQueues, database: Database, turn: ClaimedTurn
) -> None:
    """The next beat would be an hour away."""
    rare = settings.model_copy(update={"lease_seconds": 7200.0, "heartbeat_seconds": 3600.0})
    beating = Beating(rare, queues, await queues.find(settings.queue))
    beating.heartbeat.start()
    await until(lambda: beating.beats)
    beating.hold(turn)
    await cancel(database, "t", turn.id, CancelReason.USER)

    beating.heartbeat.nudge(turn.id)

    await until(lambda: beating.stops)
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)
    assert not beating.heartbeat._thread.is_alive()


async def test_a_nudge_about_somebody_elses_turn_is_none(beating: Beating, turn: ClaimedTurn) -> None:
    beating.hold(turn)

    beating.heartbeat.nudge(uuid4())

    assert not beating.heartbeat._roused.is_set()


async def test_a_hold_that_has_settled_its_turn_is_not_stopped(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    kept = beating.hold(turn)
    await settle_one(database, settings, turn)
    kept.end()

    await beats_on(beating)

    assert beating.stops == []


async def test_a_lease_that_ran_out_in_an_outage_is_renewed_after_it(
    database: Database, beating: Beating, turn: ClaimedTurn
) -> None:
    beating.hold(turn)
    await beats_on(beating)
    await expire_leases(database)
    await database.fetch(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'turnstile-heartbeat' AND datname = current_database()",
        {},
    )

    async def alive() -> bool:
        return bool(await database.fetch("SELECT 1 FROM turns WHERE lease_until > now()", {}))

    await until(alive)
    assert beating.stops == []


# --- evidence that renewals work


async def test_beats_without_a_turn_are_evidence_too(beating: Beating) -> None:
    await until(lambda: beating.heartbeat.evidence.allows_takeover(time.monotonic()))


async def test_a_lock_on_the_whole_table_takes_the_evidence_away(
    settings: Settings, database: Database, beating: Beating
) -> None:
    """Nobody can renew meanwhile, so a lease that runs out says nothing of its worker. Rows that are locked say nothing of it."""
    await until(lambda: beating.heartbeat.evidence.allows_takeover(time.monotonic()))

    with psycopg.connect(settings.database_url) as other:
        other.execute("LOCK TABLE turns IN SHARE MODE")
        await until(lambda: not beating.heartbeat.evidence.allows_takeover(time.monotonic()))

    await until(lambda: beating.heartbeat.evidence.allows_takeover(time.monotonic()))


async def test_leases_are_renewed_while_the_name_of_redis_is_looked_up_without_end(
    database: Database, beating: Beating, turn: ClaimedTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = threading.Event()

    async def extend(*_: Any) -> list[Any]:
        await asyncio.to_thread(found.wait, 60.0)
        return []

    monkeypatch.setattr(SessionLock, "extend", extend)
    beating.hold(turn, lock=LockedSession("key", "waiting", "token"))
    leases = {await lease_of(database)}

    async def renewed_often() -> bool:
        leases.add(await lease_of(database))
        return len(leases) > 4

    try:
        await until(renewed_often)
    finally:
        found.set()


# --- locks


async def test_the_lock_of_a_turn_that_is_renewed_is_kept(
    settings: Settings, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    lock = await _lock(settings)
    await keys.pexpire(lock.key, 500)
    beating.hold(turn, lock)

    async def extended() -> bool:
        return bool(await keys.pttl(lock.key) > 500)

    await until(extended)


async def test_the_lock_of_a_turn_that_is_not_renewed_is_not_kept(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    """A worker that is cut off from Postgres must not keep a session to itself."""
    lock = await _lock(settings)
    kept = beating.hold(turn, lock, renew_until=time.monotonic())
    kept.renewed_at = time.monotonic() - settings.lease_seconds

    async def gone() -> bool:
        return not await keys.exists(lock.key)

    await until(gone)


async def test_a_lock_that_was_flushed_is_taken_again_and_stops_nobody(
    settings: Settings, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    lock = await _lock(settings)
    beating.hold(turn, lock)
    await keys.delete(lock.key)

    async def retaken() -> bool:
        return await keys.get(lock.key) == lock.token

    await until(retaken)
    assert beating.stops == []


async def test_a_lock_that_another_has_is_left_to_it_and_stops_nobody(
    settings: Settings, database: Database, beating: Beating, turn: ClaimedTurn, keys: redis.asyncio.Redis
) -> None:
    lock = name_lock(settings, "t", "s", "ours")
    await keys.set(lock.key, "theirs")
    beating.hold(turn, lock)

    await beats_on(beating)

    assert await keys.get(lock.key) == "theirs"
    assert beating.stops == []


async def test_the_connections_of_the_locks_are_not_closed_under_an_extension(
    settings: Settings, queues: MessageQueues, turn: ClaimedTurn, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, seen = threading.Event(), threading.Event(), list[str]()

    async def extend(*_: Any) -> list[Any]:
        begun.set()
        await asyncio.to_thread(may_end.wait, 10.0)
        seen.append("extended")
        return []

    async def close(_: Guarded) -> None:
        seen.append("closed")

    monkeypatch.setattr(SessionLock, "extend", extend)
    monkeypatch.setattr(Guarded, "close", close)
    beating = Beating(settings, queues, await queues.find(settings.queue))
    beating.heartbeat.start()
    beating.hold(turn, lock=LockedSession("key", "waiting", "token"))
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


# --- the worker itself


async def test_a_worker_is_on_record_while_it_lives_and_withdraws_when_it_stops(
    settings: Settings, database: Database, queues: MessageQueues
) -> None:
    beating = Beating(settings, queues, await queues.find(settings.queue))
    beating.heartbeat.start()

    async def on_record() -> list[dict[str, Any]]:
        return await database.fetch("SELECT worker_id, queue, slots, dwell_seconds FROM workers", {})

    assert await until(on_record) == [
        {"worker_id": "worker-a", "queue": settings.queue, "slots": 4, "dwell_seconds": 0.5}
    ]
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)
    assert await on_record() == []


async def test_a_beat_that_fails_is_not_the_last(database: Database, beating: Beating, turn: ClaimedTurn) -> None:
    """With the thread gone, every turn of the process would be lost without a word."""
    beating.trouble.append(RuntimeError("a bug of ours"))
    beating.hold(turn)
    await until(lambda: not beating.trouble)
    before = await lease_of(database)

    async def renewed() -> bool:
        return bool(await lease_of(database) > before)

    await until(renewed, within=10.0)


async def test_a_stop_ends_the_thread(beating: Beating) -> None:
    await asyncio.to_thread(beating.heartbeat.stop, 10.0)

    assert not beating.heartbeat._thread.is_alive()
