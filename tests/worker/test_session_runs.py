"""A worker that receives a wake-up for a session that it runs itself marks its own run, without a call to Redis."""

import asyncio
from typing import Any, cast
from uuid import uuid4

import pytest

from tests.support.claims import submit_turns
from tests.support.probes import until
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.memory.history import History
from turnstile.worker.session_lock import Guard, LockedSession, Release, SessionLock

LEFT = "SELECT status FROM turns ORDER BY seq"


class Counting:
    """The locks, with counts. `before_release` runs just before a run releases its lock."""

    def __init__(self, lock: SessionLock) -> None:
        self.asked: list[Guard] = []
        self.released: list[Release] = []
        self._lock = lock
        self.give_up = lock.give_up

    async def acquire(self, wanted: LockedSession) -> Guard:
        self.asked.append(await self._lock.acquire(wanted))
        return self.asked[-1]

    async def before_release(self) -> None:
        """Nothing."""

    async def release(self, lock: LockedSession) -> Release:
        await self.before_release()
        self.released.append(await self._lock.release(lock))
        return self.released[-1]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Locks that do not run out during a test."""
    return settings.model_copy(update={"lease_seconds": 600.0})


@pytest.fixture
def lock(lock: SessionLock) -> Counting:
    return Counting(lock)


async def test_further_wake_ups_of_a_running_session_and_no_others_call_no_redis(
    settings: Settings, database: Database, lock: Counting
) -> None:
    await submit_turns(database, settings, "one")
    going_on = asyncio.Event()

    async def answer(turn: Turn, _: Any) -> Any:
        await going_on.wait()
        return turn.input

    with processing(settings, database, cast("Any", lock), "w", Handler(answer)) as processor:
        holding = asyncio.create_task(processor.process(message_about(uuid4())))
        await until(lambda: processor.runner._attempts)
        for _ in range(10):
            await processor.process(message_about(uuid4()))
        assert lock.asked == [Guard.LOCKED]
        for session, tenant in (("another", "t"), ("s", "another")):
            await processor.process(message_about(uuid4(), session, tenant))
        assert lock.asked == [Guard.LOCKED] * 3
        going_on.set()
        await holding

    assert lock.released == [Release.RELEASED] * 3


async def test_a_wake_up_near_the_end_of_a_run_is_answered_by_it(
    settings: Settings, database: Database, lock: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The settle has found no further turn; then one is committed, and its wake-up finds the session running here.
    await submit_turns(database, settings, "one")

    with processing(settings, database, cast("Any", lock), "w") as processor:
        append = History.append

        async def meanwhile(*answered: Any) -> None:
            if not lock.released:
                monkeypatch.setattr(History, "append", append)
                await submit_turns(database, settings, "two")
                await processor.process(message_about(uuid4()))
            await append(*answered)

        monkeypatch.setattr(History, "append", meanwhile)
        await processor.process(message_about(uuid4()))

    assert lock.asked == [Guard.LOCKED]
    assert await database.fetch(LEFT, {}) == [{"status": "SUCCEEDED"}] * 2


async def test_a_wake_up_during_the_unlock_sets_the_waiting_mark(
    settings: Settings, database: Database, lock: Counting
) -> None:
    # A mark on a run that no longer looks would be lost, and the turn would wait for its resend deadline.
    await submit_turns(database, settings, "one")

    async def answer(turn: Turn, _: Any) -> Any:
        if turn.input == "two":
            # The run goes on, and is found again.
            await processor.process(message_about(uuid4()))
        return turn.input

    with processing(settings, database, cast("Any", lock), "w", Handler(answer)) as processor:

        async def meanwhile() -> None:
            if not lock.released and len(lock.asked) == 1:
                await submit_turns(database, settings, "two")
                await processor.process(message_about(uuid4()))

        lock.before_release = meanwhile  # type: ignore[method-assign]
        await processor.process(message_about(uuid4()))

    assert lock.asked == [Guard.LOCKED, Guard.BUSY]
    assert lock.released == [Release.LOOK_AGAIN, Release.RELEASED]
    assert await database.fetch(LEFT, {}) == [{"status": "SUCCEEDED"}] * 2


async def test_a_run_that_may_not_go_on_is_not_marked(settings: Settings, database: Database, lock: Counting) -> None:
    # Each wake-up that it sends is received here again: if each marked the run, it would never end.
    await submit_turns(database, settings, "one")
    at_its_end = settings.model_copy(update={"session_run_seconds": 0.0})
    owed: list[int] = []

    async def answer(turn: Turn, _: Any) -> Any:
        await processor.process(message_about(uuid4()))
        return turn.input

    with processing(at_its_end, database, cast("Any", lock), "w", Handler(answer)) as processor:
        leave_to_others = processor.claimer.leave_to_others

        async def meanwhile(run: Any) -> None:
            owed.append(len(lock.asked))
            if len(owed) <= 2:
                await processor.process(message_about(uuid4()))
            await leave_to_others(run)

        processor.claimer.leave_to_others = meanwhile  # type: ignore[method-assign]
        await processor.process(message_about(uuid4()))

    assert lock.asked == [Guard.LOCKED, Guard.BUSY, Guard.BUSY]
    assert lock.released == [Release.LOOK_AGAIN, Release.LOOK_AGAIN, Release.RELEASED]
