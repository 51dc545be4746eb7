"""A session lock that no worker has set: the claim decides, as it does without Redis."""

import pytest
import redis.asyncio

from tests.support.claims import submit_turns
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import SessionLock, name_lock


@pytest.mark.parametrize("seconds", [None, 600])
async def test_a_lock_that_nobody_owns_does_not_stop_its_session(
    settings: Settings, database: Database, lock: SessionLock, keys: redis.asyncio.Redis, seconds: int | None
) -> None:
    (turn,) = await submit_turns(database, settings, "one")
    theirs = name_lock(settings, "t", "s", "attacker")
    await keys.set(theirs.key, theirs.token, ex=seconds)

    with processing(settings, database, lock, "worker-a") as processor:
        await processor.process(message_about(turn))

    assert await database.fetch("SELECT status FROM turns", {}) == [{"status": "SUCCEEDED"}]
    assert await keys.get(theirs.key) == theirs.token
