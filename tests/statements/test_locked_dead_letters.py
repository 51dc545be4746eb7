"""Another transaction has locked the turn of a dead letter that was moved back: the message stays, and delays no other."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from tests.support.claims import fail_next
from tests.support.factories import make_submission
from tests.support.processors import Noting, message_about, processing
from tests.support.redis_hands import OwnSessionLock
from tests.support.row_locks import rows_locked
from turnstile.backends.postgres.database import LOCK_TIMEOUT_SECONDS, Database
from turnstile.config.settings import Settings
from turnstile.errors import MessageStaysError
from turnstile.statements.revive import revive_by_letter
from turnstile.statements.submit import submit
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.identifiers import start_trace
from turnstile.turn.wire_format import DEAD_LETTER_GENERATION
from turnstile.worker.session_lock import SessionLock


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    opened = OwnSessionLock(settings)
    yield opened
    await opened.close()


async def moved_back(database: Database, settings: Settings) -> ReceivedMessage:
    """The dead letter of a FAILED turn, as it comes on the turn's queue."""
    await submit(database, [make_submission("turns", "s")], resend_seconds=600.0)
    turn_id = await fail_next(database, settings, "s", halt=False, compensates=False)
    plain = message_about(turn_id)
    return ReceivedMessage(plain.message_id, plain.body, "handle", 1, {DEAD_LETTER_GENERATION: "1"}, False)


@pytest.mark.parametrize("table", ["turns", "sessions"])
async def test_a_dead_letter_whose_turn_is_locked_stays_and_revives_its_turn_later(
    settings: Settings, database: Database, lock: SessionLock, table: str
) -> None:
    message, sqs = await moved_back(database, settings), Noting()

    with processing(settings, database, lock, "w", queues=sqs) as processor:
        # A longer wait would tie up a connection.
        with rows_locked(settings, table=table), pytest.raises(MessageStaysError):
            await asyncio.wait_for(processor.process(message), LOCK_TIMEOUT_SECONDS)
        assert sqs.deleted == []

        await processor.process(message)

    assert sqs.deleted == [message]
    [row] = await database.fetch("SELECT status, generation FROM turns", {})
    assert (row["status"], row["generation"]) == ("SUCCEEDED", 2)


async def test_the_connection_keeps_its_lock_timeout_for_its_next_user(settings: Settings) -> None:
    async with Database(settings.database, "test", size=1, pinned=True) as database:
        before = await database.fetch("SHOW lock_timeout", {})

        await revive_by_letter(
            database,
            (uuid4(), 1),
            start_trace(1),
            message_id="m",
            expires_in_seconds=60.0,
            resend_seconds=60.0,
            wait_seconds=0.1,
        )

        assert await database.fetch("SHOW lock_timeout", {}) == before
