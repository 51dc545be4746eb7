"""A hold that can't claim a due head owes it a wake-up: whoever came for it meanwhile was turned away by the lock."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

import pytest

from tests.support.claiming import submit_turns
from tests.support.factories import make_submission
from tests.support.processing import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.statements.claim import Claim
from turnstile.statements.submit import Accepted, submit
from turnstile.worker.kept_alive import KeptAlive
from turnstile.worker.session_lock import Guard, LockedSession, Release, SessionLock

NET_SECONDS = 60.0

LEFT = "SELECT queue, status, send_at <= clock_timestamp() AS due FROM turns ORDER BY seq"


class Looking:
    """A hand on the lock that looks at its hold at the moment of each unlock."""

    def __init__(self, lock: SessionLock) -> None:
        self.acquire = lock.acquire
        self.holds: list[KeptAlive] = []
        self.kept: list[bool] = []
        self._lock = lock

    async def release(self, held: LockedSession) -> Release:
        self.kept += [hold.keeps_lock for hold in self.holds]
        return await self._lock.release(held)

    async def give_up(self, held: LockedSession) -> None:
        self.kept += [hold.keeps_lock for hold in self.holds]
        await self._lock.give_up(held)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A net that no test waits for, and a lock that lives as long."""
    return settings.model_copy(update={"net_seconds": NET_SECONDS, "lease_seconds": 30.0})


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


async def test_the_head_of_another_queue_is_due_at_once_when_its_worker_was_turned_away(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    other = settings.model_copy(
        update={"queue": "other", "queues": (*settings.queues, QueueSettings(name="other", visibility_seconds=4.0))}
    )
    head, second = await submit(
        database, [make_submission("other"), make_submission(settings.queue)], net_seconds=NET_SECONDS
    )
    assert isinstance(head, Accepted)
    assert isinstance(second, Accepted)
    for_the_other = message_about(head.turn_id)

    class BothAtOnce:
        """Our worker has the lock while the other queue's worker comes for its head, and goes."""

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


async def test_the_heartbeat_knows_that_a_lock_is_given_back_before_it_is(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    looking = Looking(lock)

    with processing(settings, database, cast("Any", looking), "ours") as ours:
        ours._deps.heartbeat.take = looking.holds.append
        await ours.process(message_about(uuid4()))

    assert looking.kept == [False]


async def test_the_heartbeat_knows_it_too_when_a_hold_is_broken_off(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    looking = Looking(lock)

    async def break_off(_: object) -> Claim:
        raise RuntimeError("a bug of ours")

    with processing(settings, database, cast("Any", looking), "ours") as ours:
        ours._deps.heartbeat.take = looking.holds.append
        ours._claiming._claims = cast("Any", break_off)
        with pytest.raises(RuntimeError):
            await ours.process(message_about(uuid4()))

    assert looking.kept == [False]


async def test_a_hold_that_goes_on_after_its_unlock_keeps_its_lock_again(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    meanwhile: list[bool] = []

    class Busy(Looking):
        """Somebody comes, and leaves a mark, just before the first unlock."""

        async def release(self, held: LockedSession) -> Release:
            if not self.kept:
                await submit_turns(database, settings, "two")
                await lock.acquire(replace(held, token="somebody else's"))
            return await super().release(held)

    looking = Busy(lock)
    handler = Handler(lambda turn, _: meanwhile.append(looking.holds[0].keeps_lock))

    with processing(settings, database, cast("Any", looking), "ours", handler) as ours:
        ours._deps.heartbeat.take = looking.holds.append
        await ours.process(message_about(uuid4()))

    assert meanwhile == [True, True]
    assert looking.kept == [False, False]
