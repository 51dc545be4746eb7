"""A handler may seed `random`, as training code does: the waits of its turns differ all the same."""

import random

from tests.support.factories import make_submission
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.statements.submit import submit
from turnstile.worker.session_lock import SessionLock

WAITS = """
    SELECT round(extract(epoch FROM t.execute_at - a.finished_at)) AS seconds
      FROM turns t JOIN turn_attempts a ON a.turn_id = t.id
"""


async def seeds(*_: object) -> None:
    random.seed(42)
    raise TimeoutError


async def test_turns_that_seed_random_and_fail_together_are_not_retried_together(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    settings = settings.model_copy(update={"retry_base_seconds": 600.0, "retry_cap_seconds": 600.0})
    failing = [make_submission(settings.queue, f"s-{number}") for number in range(3)]
    await submit(database, failing, resend_seconds=600)

    with processing(settings, database, lock, "w", Handler(seeds)) as processor:
        for turn in failing:
            await processor.process(message_about(turn.turn_id, turn.session_id))

    assert len({row["seconds"] for row in await database.fetch(WAITS, {})}) == len(failing)
