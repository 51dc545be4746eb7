"""A hold that is broken off by what nobody foresaw."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.factories import make_submission
from tests.support.processing import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.submit import submit
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import Guard, SessionLock, name_lock


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    """A worker's hand on the locks, which are never free because their time is over."""
    opened = OwnSessionLock(settings.model_copy(update={"lease_seconds": 600.0}))
    yield opened
    await opened.close()


async def test_it_leaves_no_lock_behind_although_somebody_has_left_a_mark(
    settings: Settings, database: Database, lock: SessionLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = make_submission(settings.queue, "s")
    await submit(database, [wanted], net_seconds=600)
    theirs = name_lock(settings, "t", "s", "theirs")

    async def break_off(*_: Any) -> None:
        assert await lock.acquire(theirs) is Guard.BUSY
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(Processor, "_work", break_off)
    with processing(settings, database, lock, "w") as processor, pytest.raises(RuntimeError):
        await processor.process(message_about(wanted.turn_id))

    # Or each wake-up of the session would be turned away, and deleted, until the lock's time is over.
    assert await lock.acquire(theirs) is Guard.LOCKED
