"""A session run that an unforeseen error ends."""

from typing import Any

import pytest

from tests.support.factories import make_submission
from tests.support.processing import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.submit import submit
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import Guard, SessionLock, name_lock


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Locks that do not run out during a test."""
    return settings.model_copy(update={"lease_seconds": 600.0})


async def test_it_releases_its_lock_although_there_is_a_waiting_mark(
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

    # Otherwise each wake-up of the session would be deleted until the lock runs out.
    assert await lock.acquire(theirs) is Guard.LOCKED
