"""The end of a session run: a head of another queue is made due, the heartbeat does not retake the released lock, and nothing is
forgotten while Redis does not respond."""

from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest

from tests.support.claims import submit_turns
from tests.support.factories import make_submission
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.statements.claim import Claim
from turnstile.statements.submit import Accepted, submit
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import Guard, LockedSession, Release, SessionLock, name_lock

RESEND_SECONDS = 60.0

LEFT = "SELECT queue, status, send_at <= clock_timestamp() AS due FROM turns ORDER BY seq"


class Looking:
    """The locks; notes at each release whether the heartbeat still keeps the lock."""

    def __init__(self, lock: SessionLock) -> None:
        self.acquire = lock.acquire
        self.runs: list[HeartbeatEntry] = []
        self.kept: list[bool] = []
        self._lock = lock

    async def release(self, ours: LockedSession) -> Release:
        self.kept += [run.keeps_lock for run in self.runs]
        return await self._lock.release(ours)

    async def give_up(self, ours: LockedSession) -> None:
        self.kept += [run.keeps_lock for run in self.runs]
        await self._lock.give_up(ours)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A resend deadline that no test waits for, and locks that last as long."""
    return settings.model_copy(update={"resend_seconds": RESEND_SECONDS, "lease_seconds": 30.0})


async def test_the_head_of_another_queue_is_made_due(settings: Settings, database: Database, lock: SessionLock) -> None:
    other = settings.model_copy(
        update={"queue": "other", "queues": (*settings.queues, QueueSettings(name="other", visibility_seconds=4.0))}
    )
    head, second = await submit(
        database, [make_submission("other"), make_submission(settings.queue)], resend_seconds=RESEND_SECONDS
    )
    assert isinstance(head, Accepted)
    assert isinstance(second, Accepted)
    for_the_other = message_about(head.turn_id)

    class BothAtOnce:
        """Our worker has the lock while the other queue's worker receives its wake-up and finds the session busy."""

        release = staticmethod(lock.release)

        async def acquire(self, wanted: LockedSession) -> Guard:
            guard = await lock.acquire(wanted)
            with processing(other, database, lock, "theirs") as theirs:
                await theirs.process(for_the_other)
            return guard

    with processing(settings, database, BothAtOnce(), "ours") as ours:  # type: ignore[arg-type]
        await ours.process(message_about(second.turn_id))

    left = await database.fetch(LEFT, {})
    assert left[0] == {"queue": "other", "status": "PENDING", "due": True}
    assert left[1]["status"] == "PENDING"


async def test_a_run_that_fails_releases_its_lock_and_drops_it_from_the_heartbeat(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    looking = Looking(lock)

    theirs = name_lock(settings, "t", "s", "theirs")

    async def break_off(_: object) -> Claim:
        assert await lock.acquire(theirs) is Guard.BUSY
        raise RuntimeError("a bug of ours")

    with processing(settings, database, cast("Any", looking), "ours") as ours:
        ours.heartbeat.take = looking.runs.append
        ours.claimer._ask = cast("Any", break_off)
        with pytest.raises(RuntimeError):
            await ours.process(message_about(uuid4()))

    assert looking.kept == [False]
    # Released although there is a waiting mark: otherwise each wake-up would be deleted until the lock runs out.
    assert await lock.acquire(theirs) is Guard.LOCKED


async def test_a_run_that_goes_on_after_its_unlock_keeps_its_lock(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    meanwhile: list[bool] = []

    class Busy(Looking):
        """Another wake-up sets the waiting mark just before the first release."""

        async def release(self, ours: LockedSession) -> Release:
            if not self.kept:
                await submit_turns(database, settings, "two")
                await lock.acquire(replace(ours, token="another"))
            return await super().release(ours)

    looking = Busy(lock)
    handler = Handler(lambda turn, _: meanwhile.append(looking.runs[0].keeps_lock))

    with processing(settings, database, cast("Any", looking), "ours", handler) as ours:
        ours.heartbeat.take = looking.runs.append
        await ours.process(message_about(uuid4()))

    assert meanwhile == [True, True]
    assert looking.kept == [False, False]
    assert [run.turn for run in looking.runs] == [None], "no lease is renewed after its settle"


class Unheard:
    """The locks of a worker that gets no response from Redis, which executes its scripts all the same."""

    def __init__(self, lock: SessionLock) -> None:
        self.releases = 0
        self._lock = lock

    async def acquire(self, wanted: LockedSession) -> Guard:
        await self._lock.acquire(wanted)
        return Guard.UNANSWERED

    async def release(self, ours: LockedSession) -> Release:
        self.releases += 1
        await self._lock.release(ours)
        return Release.UNKNOWN


class Away:
    """The locks of a worker that does not call Redis."""

    releases = 0

    async def acquire(self, _: LockedSession) -> Guard:
        return Guard.UNGUARDED


async def test_a_lock_whose_response_was_lost_is_released(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")

    with processing(settings, database, cast("Any", Unheard(lock)), "ours") as ours:
        await ours.process(message_about(uuid4()))

    assert await lock.acquire(name_lock(settings, "t", "s", "theirs")) is Guard.LOCKED


@pytest.mark.parametrize("redis", ["unheard", "away"])
async def test_a_turn_that_comes_during_the_last_settle_is_answered_without_a_mark(
    settings: Settings, database: Database, lock: SessionLock, redis: str
) -> None:
    await submit_turns(database, settings, "one")
    locks = Unheard(lock) if redis == "unheard" else Away()

    with processing(settings, database, cast("Any", locks), "ours") as ours:
        settle = ours.settler.settle

        async def settle_late(*asked: Any, **more: Any) -> Any:
            settled = await settle(*asked, **more)
            ours.settler.settle = settle  # type: ignore[method-assign]
            # Its wake-up has found the session RUNNING, and has left no mark.
            await submit_turns(database, settings, "two")
            return settled

        ours.settler.settle = settle_late  # type: ignore[method-assign]
        await ours.process(message_about(uuid4()))

    assert [row["status"] for row in await database.fetch(LEFT, {})] == ["SUCCEEDED"] * 2
    # One look after each turn, and the run ends although no release has a response.
    assert locks.releases == (3 if redis == "unheard" else 0)
