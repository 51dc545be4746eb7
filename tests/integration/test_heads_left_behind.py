"""A hold that can't claim a due head owes it a wake-up: whoever came for it meanwhile was turned away by the lock."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest

from tests.factories import make_submission
from tests.integration.processing import message_about, processing
from tests.integration.test_claim import submit_turns
from tests.probes import until
from turns.database import Database
from turns.settings import QueueSettings, Settings
from turns.submission import Accepted, submit
from worker.heartbeat import Held
from worker.session_lock import Guard, LockedSession, Release, SessionLock

NET_SECONDS = 60.0

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
LEFT = "SELECT queue, status, send_at <= clock_timestamp() AS due FROM turns ORDER BY seq"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A net that no test waits for, and a lock that lives as long."""
    return settings.model_copy(update={"net_seconds": NET_SECONDS, "lease_seconds": 30.0})


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = SessionLock(settings)
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


async def test_a_head_that_somebody_sat_on_is_due_as_soon_as_he_is_gone(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    [row] = await database.fetch("SELECT id FROM turns", {})
    with processing(settings, database, lock, "ours") as ours, psycopg.connect(settings.database_url) as sitting:
        sitting.execute("SELECT 1 FROM turns FOR NO KEY UPDATE")
        running = asyncio.create_task(ours.process(message_about(row["id"])))

        async def has_given_up() -> bool:
            return running.done() or bool(await database.fetch(WAITING, {}))

        await until(has_given_up)
        sitting.rollback()
        await asyncio.wait_for(running, 30)

    assert await database.fetch(LEFT, {}) == [{"queue": settings.queue, "status": "PENDING", "due": True}]


async def test_the_heartbeat_knows_that_a_lock_is_given_back_before_it_is(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    await submit_turns(database, settings, "one")
    taken: list[Held] = []
    kept: list[bool] = []

    class Looking:
        """Looks at the hold at the moment of its unlock."""

        acquire = staticmethod(lock.acquire)

        async def release(self, held: LockedSession) -> Release:
            kept.extend(one.keeps_lock for one in taken)
            return await lock.release(held)

    with processing(settings, database, cast("Any", Looking()), "ours") as ours:
        ours._with.heartbeat.take = taken.append
        await ours.process(message_about(uuid4()))

    assert kept == [False]
