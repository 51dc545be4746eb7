"""The heartbeat reads whether operators have paused the worker's queue."""

import psycopg
import pytest

import turnstile.worker.heartbeat
from tests.support.heartbeats import Beating, beats_on
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.paused_queues import pause_queue, resume_queue


async def test_a_heartbeat_passes_a_pause_and_its_end_on(
    settings: Settings, database: Database, beating: Beating, superuser: Database
) -> None:
    await until(lambda: beating.paused)
    assert beating.paused[-1] is False

    await pause_queue(superuser, settings.queue, paused_by="ada", reason=None)
    await until(lambda: beating.paused[-1])

    await resume_queue(superuser, settings.queue, resumed_by="ada")
    await until(lambda: not beating.paused[-1])


async def test_a_pause_of_another_queue_is_not_this_worker_s(
    settings: Settings, database: Database, beating: Beating, superuser: Database
) -> None:
    await pause_queue(superuser, "another", paused_by="ada", reason=None)
    beats = len(beating.paused)

    await until(lambda: len(beating.paused) > beats + 1)

    assert not beating.paused[-1]


async def test_a_refused_announcement_keeps_no_pause_from_being_read(
    settings: Settings, database: Database, beating: Beating, superuser: Database
) -> None:
    """Or a worker that is deployed before its tables would wait for ever, and look like one of a paused queue."""
    beating.trouble = [psycopg.Error("no such column")] * 1000

    await pause_queue(superuser, settings.queue, paused_by="ada", reason=None)

    await until(lambda: beating.paused and beating.paused[-1])
    beating.trouble.clear()


async def test_pauses_that_can_not_be_read_keep_no_worker_from_announcing_itself(
    database: Database, beating: Beating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would take the turns that it holds behind locked rows for lost."""

    async def refuse(_: Database) -> set[str]:
        raise psycopg.Error("no such table")

    monkeypatch.setattr(turnstile.worker.heartbeat, "read_paused_queues", refuse)
    await beats_on(beating)
    await database.fetch("UPDATE workers SET busy = -1", {})

    async def announced() -> bool:
        return (await database.fetch("SELECT FROM workers WHERE busy >= 0", {})) != []

    await until(announced)
