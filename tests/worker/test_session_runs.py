"""A worker that comes for a session which it holds itself leaves word with its own hold, and asks Redis nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import uuid4

import pytest

from tests.support.claiming import submit_turns
from tests.support.probes import until
from tests.support.processing import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler, Turn
from turnstile.worker.session_lock import Guard, LockedSession, Release, SessionLock

LEFT = "SELECT status FROM turns ORDER BY seq"


class Counting:
    """A hand on the locks. `before_release` happens while a hold is about to give its lock back."""

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

    async def release(self, held: LockedSession) -> Release:
        await self.before_release()
        self.released.append(await self._lock.release(held))
        return self.released[-1]


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[Counting]:
    opened = OwnSessionLock(settings.model_copy(update={"lease_seconds": 600.0}))
    yield Counting(opened)
    await opened.close()


async def test_of_a_session_that_it_holds_redis_is_asked_once(
    settings: Settings, database: Database, lock: Counting
) -> None:
    await submit_turns(database, settings, "one")
    going_on = asyncio.Event()

    async def answer(turn: Turn, _: Any) -> Any:
        await going_on.wait()
        return turn.input

    with processing(settings, database, cast("Any", lock), "w", Handler(answer)) as processor:
        holding = asyncio.create_task(processor.process(message_about(uuid4())))
        await until(lambda: processor._handling._attempts)
        for _ in range(10):
            await processor.process(message_about(uuid4()))
        going_on.set()
        await holding

    assert lock.asked == [Guard.LOCKED]
    assert lock.released == [Release.RELEASED]


async def test_what_came_while_the_hold_was_about_to_end_is_done_by_it(
    settings: Settings, database: Database, lock: Counting
) -> None:
    # The settle has found nothing more; a turn is committed, and its wake-up finds the session held.
    await submit_turns(database, settings, "one")

    with processing(settings, database, cast("Any", lock), "w") as processor:
        history = processor._resources.history
        append = history.append

        async def meanwhile(*told: Any) -> None:
            if not lock.released:
                history.append = append  # type: ignore[method-assign]
                await submit_turns(database, settings, "two")
                await processor.process(message_about(uuid4()))
            await append(*told)

        history.append = meanwhile  # type: ignore[method-assign]
        await processor.process(message_about(uuid4()))

    assert lock.asked == [Guard.LOCKED]
    assert await database.fetch(LEFT, {}) == [{"status": "SUCCEEDED"}] * 2


async def test_who_comes_while_the_lock_is_being_given_back_asks_redis(
    settings: Settings, database: Database, lock: Counting
) -> None:
    # Word left with a hold that looks no more would be lost, and the turn would wait for its net.
    await submit_turns(database, settings, "one")

    async def answer(turn: Turn, _: Any) -> Any:
        if turn.input == "two":
            # It goes on, and is found again.
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


async def test_after_a_hold_that_was_broken_off_redis_is_asked_again(
    settings: Settings, database: Database, lock: Counting
) -> None:
    await submit_turns(database, settings, "one")

    async def break_off(_: object) -> Any:
        raise RuntimeError("a bug of ours")

    with processing(settings, database, cast("Any", lock), "w") as processor:
        claims, processor._claiming._claims = processor._claiming._claims, cast("Any", break_off)
        with pytest.raises(RuntimeError):
            await processor.process(message_about(uuid4()))
        processor._claiming._claims = claims
        await processor.process(message_about(uuid4()))

    assert lock.asked == [Guard.LOCKED, Guard.LOCKED]
    assert await database.fetch(LEFT, {}) == [{"status": "SUCCEEDED"}]


async def test_other_sessions_are_none_of_its_business(settings: Settings, database: Database, lock: Counting) -> None:
    await submit_turns(database, settings, "one")
    inside = asyncio.Event()
    going_on = asyncio.Event()

    async def answer(turn: Turn, _: Any) -> Any:
        inside.set()
        await going_on.wait()
        return turn.input

    with processing(settings, database, cast("Any", lock), "w", Handler(answer)) as processor:
        holding = asyncio.create_task(processor.process(message_about(uuid4())))
        await inside.wait()
        await processor.process(message_about(uuid4(), "another"))
        await processor.process(message_about(uuid4(), "s", "another"))
        going_on.set()
        await holding

    assert lock.asked == [Guard.LOCKED] * 3


async def test_word_is_not_left_with_a_hold_that_may_not_go_on(
    settings: Settings, database: Database, lock: Counting
) -> None:
    # Each wake-up that it owes to others comes back here, and with word left for each it would never end.
    await submit_turns(database, settings, "one")
    at_its_end = settings.model_copy(update={"session_run_seconds": 0.0})
    owed: list[int] = []

    async def answer(turn: Turn, _: Any) -> Any:
        await processor.process(message_about(uuid4()))
        return turn.input

    with processing(at_its_end, database, cast("Any", lock), "w", Handler(answer)) as processor:
        leave_to_others = processor._claiming.leave_to_others

        async def meanwhile(hold: Any) -> None:
            owed.append(len(lock.asked))
            if len(owed) <= 2:
                await processor.process(message_about(uuid4()))
            await leave_to_others(hold)

        processor._claiming.leave_to_others = meanwhile  # type: ignore[method-assign]
        await processor.process(message_about(uuid4()))

    assert lock.asked == [Guard.LOCKED, Guard.BUSY, Guard.BUSY]
    assert lock.released == [Release.LOOK_AGAIN, Release.LOOK_AGAIN, Release.RELEASED]
