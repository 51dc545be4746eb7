"""The table keeps the traceback of a failed attempt, unless TURNSTILE_KEEP_TRACEBACKS is off."""

import asyncio
from typing import Any

import pytest

from tests.support.factories import make_submission
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.ops.turns.attempts import read_attempts
from turnstile.statements.submit import submit
from turnstile.worker.session_lock import SessionLock


def breaks(*_: object) -> None:
    raise LookupError("no such model")


@pytest.mark.parametrize("kept", [True, False])
async def test_the_setting_says_whether_a_traceback_is_kept(
    settings: Settings, database: Database, lock: SessionLock, kept: bool
) -> None:
    settings = settings.model_copy(update={"keep_tracebacks": kept})
    failing = make_submission(settings.queue, "s")
    await submit(database, [failing], resend_seconds=600)

    with processing(settings, database, lock, "w", Handler(breaks, max_attempts=1)) as processor:
        await processor.process(message_about(failing.turn_id))

    [attempt] = await read_attempts(database, failing.tenant_id, failing.turn_id)
    assert attempt.error_class == "LookupError"
    assert ("in breaks" in (attempt.traceback or "")) is kept


async def breaks_in_a_task(*_: Any) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(breaks))


async def test_the_traceback_of_a_group_reaches_the_line_that_failed(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    failing = make_submission(settings.queue, "s")
    await submit(database, [failing], resend_seconds=600)

    with processing(settings, database, lock, "w", Handler(breaks_in_a_task, max_attempts=1)) as processor:
        await processor.process(message_about(failing.turn_id))

    [attempt] = await read_attempts(database, failing.tenant_id, failing.turn_id)
    assert (attempt.error_class, attempt.error) == ("LookupError", "no such model")
    assert "in breaks\n" in (attempt.traceback or "")
