"""`turnstile redrive` of turns whose queue is paused: there, nothing can begin."""

import json

import pytest

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed, rows
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.paused_queues import pause_queue


@pytest.fixture(autouse=True)
async def paused(database: Database, settings: Settings) -> None:
    await pause_queue(database, settings.queue, paused_by="ada@test", reason=None)


async def test_a_canary_is_refused_in_one_line_and_nothing_is_changed(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    before = await rows(database)

    ran = [await turnstile("redrive", "--canary", "1", end) for end in ("--yes", "--dry-run")]

    line = f"queue {settings.queue} is paused by ada@test: resume it first: turnstile queues resume {settings.queue}"
    assert [(one.code, one.out, one.err) for one in ran] == [(1, "", f"turnstile: {line}\n")] * 2
    assert await rows(database) == before


async def test_without_a_canary_the_turns_go_back_and_a_line_says_that_they_wait(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    failed = await make_failed(database, settings, ["a", "b"])

    ran = await turnstile("redrive", "--yes", "--json")

    assert (ran.code, json.loads(ran.out)["revived"]) == (0, len(failed))
    assert ran.err == (
        f"queue {settings.queue} is paused by ada@test: "
        f"turns put back wait for the resume (2): turnstile queues resume {settings.queue}\n"
    )


async def test_a_pause_of_another_queue_does_not_matter(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"], queue="elsewhere")

    ran = await turnstile("redrive", "--canary", "1", "--dry-run", "--json")

    assert (ran.code, json.loads(ran.out)["matched"], ran.err) == (0, 2, "")
