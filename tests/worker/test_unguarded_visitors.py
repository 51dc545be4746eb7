"""A visitor without a lock leaves no mark: where the head is being answered elsewhere, its message comes again."""

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.processing import Noting, message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.session_release import BACK_BASE_SECONDS

NOWHERE = "redis://127.0.0.1:1/0"


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


@pytest.fixture
async def no_lock(settings: Settings) -> AsyncIterator[SessionLock]:
    """With Redis away."""
    opened = OwnSessionLock(settings.model_copy(update={"redis_url": NOWHERE}))
    yield opened
    await opened.close()


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


async def submitted(database: Database, settings: Settings, *contents: str) -> list[UUID]:
    """The turns of one session, in their order."""
    await submit_turns(database, settings, *contents)
    return [row["id"] for row in await database.fetch("SELECT id FROM turns ORDER BY seq", {})]


async def statuses(database: Database) -> list[str]:
    return [row["status"] for row in await database.fetch("SELECT status FROM turns ORDER BY seq", {})]


async def test_a_message_without_a_lock_comes_again_while_the_head_is_answered_elsewhere(
    settings: Settings, database: Database, no_lock: SessionLock
) -> None:
    _, second = await submitted(database, settings, "first", "second")
    first = await claim_one(database, settings, "another")
    assert isinstance(first, ClaimedTurn)
    sqs, message = Noting(), message_about(second)

    with processing(settings, database, no_lock, "w", queues=sqs) as processor:
        await processor.process(message)
        assert (sqs.deleted, [given for given, _ in sqs.given_back]) == ([], [message])
        [(_, seconds)] = sqs.given_back
        assert 0 < seconds <= BACK_BASE_SECONDS

        # The holder's settle has not seen the second turn, and nobody has left a mark.
        await settle_one(database, settings, first, more=False)
        await processor.process(message)

    assert await statuses(database) == ["SUCCEEDED", "SUCCEEDED"]
    assert sqs.deleted == [message]


async def test_a_message_under_the_lock_ends_while_the_head_is_answered_elsewhere(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # Whoever answers it has lost its lock, finds that at its unlock, and looks once more.
    _, second = await submitted(database, settings, "first", "second")
    await claim_one(database, settings, "another")
    sqs, message = Noting(), message_about(second)

    with processing(settings, database, lock, "w", queues=sqs) as processor:
        await processor.process(message)

    assert (sqs.deleted, sqs.given_back) == ([message], [])


async def test_a_message_without_a_lock_ends_where_nothing_is_due(
    settings: Settings, database: Database, no_lock: SessionLock
) -> None:
    [first] = await submitted(database, settings, "first")
    sqs, message = Noting(), message_about(first)

    with processing(settings, database, no_lock, "w", queues=sqs) as processor:
        await processor.process(message)
        await processor.process(message)

    assert (sqs.deleted, sqs.given_back) == ([message, message], [])
