"""Session locks on the real Redis, a parent turn with its children, and a queue that exists only for tests that use it."""

from collections.abc import AsyncIterator
from typing import cast

import pytest

from tests.support.claims import submit_turns
from tests.support.process_roles import url_of_command
from tests.support.redis_hands import OwnCancelHints, OwnSessionLock
from tests.worker.attempt.child_turns import PARENT, Family, NoQueues
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.child_intake import ChildIntake
from turnstile.worker.session_lock import SessionLock


@pytest.fixture
def queue(request: pytest.FixtureRequest, fifo: bool, visibility_seconds: float) -> QueueSettings:
    """A queue that is declared and does not exist in SQS; a real one for tests that use `queues`."""
    if "queues" in request.fixturenames:
        real: QueueSettings = request.getfixturevalue("queue")
        return real
    return QueueSettings(name="turns", visibility_seconds=visibility_seconds)


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    """A pool as the worker opens it, with the role of a worker that runs a relay. Tests tamper as the superuser."""
    place = DatabasePlace(url_of_command("worker", settings.database_url))
    async with Database(place, "test", size=4, pinned=True, wait_seconds=30.0) as opened:
        yield opened


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


@pytest.fixture
def no_queues() -> NoQueues:
    return NoQueues()


@pytest.fixture
async def hints(settings: Settings) -> AsyncIterator[OwnCancelHints]:
    made = OwnCancelHints(settings)
    yield made
    await made.close()


@pytest.fixture
def intake(settings: Settings, database: Database, no_queues: NoQueues, hints: OwnCancelHints) -> ChildIntake:
    return ChildIntake(settings, database, cast("MessageQueues", no_queues), hints, None)


@pytest.fixture
def family(database: Database, settings: Settings, intake: ChildIntake) -> Family:
    return Family(database, settings, intake)


@pytest.fixture
async def parent(family: Family) -> ClaimedTurn:
    await submit_turns(family.database, family.settings, "one", session_id=PARENT)
    return await family.claim()
