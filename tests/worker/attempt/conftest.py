"""What an attempt has around it: threads, an emitter, a parent turn with its children."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import cast

import pytest

from tests.support.claims import submit_turns
from tests.support.redis_hands import OwnCancelHints
from tests.worker.attempt.attempts import THREADS, Bench
from tests.worker.attempt.child_turns import PARENT, Family, NoQueues
from tests.worker.attempt.emitted_events import EmitterRig
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.child_intake import ChildIntake


@pytest.fixture
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


@pytest.fixture
async def bench(threads: Executor) -> Bench:
    return Bench(threads)


@pytest.fixture
async def rig() -> EmitterRig:
    return EmitterRig()


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
    return ChildIntake(settings, database, cast("MessageQueues", no_queues), hints)


@pytest.fixture
def family(database: Database, settings: Settings, intake: ChildIntake) -> Family:
    return Family(database, settings, intake)


@pytest.fixture
async def parent(family: Family) -> ClaimedTurn:
    await submit_turns(family.database, family.settings, "one", session_id=PARENT)
    return await family.claim()
