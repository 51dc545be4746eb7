"""What a relay reports about the registered workers: the states that `turnstile workers` has, for alarms."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from structlog.testing import capture_logs

from tests.support.factories import make_worker_record
from tests.support.metric_readings import reading
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.queries.workers import WorkerState
from turnstile.relay.reports.worker_metric import report_workers
from turnstile.statements.worker_registry import announce


async def reported(database: Database, settings: Settings, enough: Callable[[], object]) -> list[Any]:
    """The lines of a report that runs until `enough`."""
    stopping = asyncio.Event()
    with capture_logs() as logs:
        running: Awaitable[None] = asyncio.ensure_future(
            report_workers(database, settings, stopping, every_seconds=0.01)
        )
        try:
            await until(enough)
        finally:
            stopping.set()
            await running
    return list(logs)


def shown(settings: Settings) -> dict[str, float | None]:
    return {state: reading("turnstile_workers", queue=settings.queue, state=state) for state in WorkerState}


async def test_each_state_is_counted_as_the_command_shows_it(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    for name, how in {
        "well": {}, "blocked": {"blocked_for_seconds": 3.0}, "deaf": {"deaf_for_seconds": 1e6}, "draining": {"draining": True},
        "starved": {"starved_for_seconds": 100.0}, "broken": {"broken_by": "KeyError"},
    }.items():  # fmt: skip
        await announce(database, make_worker_record(settings.queue, name, lease_seconds=100, **how))
    await announce(database, make_worker_record(settings.queue, "silent", lease_seconds=100))
    await database.fetch("UPDATE workers SET seen_at = now() - interval '150 s' WHERE worker_id = 'silent'", {})

    logs = await reported(of_relay, settings, lambda: shown(settings)["well"] is not None)

    counts = {
        "well": 1,
        "blocked": 1,
        "deaf": 1,
        "draining": 1,
        "silent": 1,
        "starved": 1,
        "broken": 1,
        "lost": 0,
        "paused": 0,
    }
    assert shown(settings) == counts
    assert logs[0] == {
        "event": "queue.workers", "log_level": "warning", "queue": settings.queue, "unwell": 5, **counts,
    }  # fmt: skip


async def test_workers_that_are_well_or_as_somebody_wants_them_cause_no_warning(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await announce(database, make_worker_record(settings.queue, "a", draining=True))

    logs = await reported(of_relay, settings, lambda: shown(settings)["draining"] == 1)

    assert {(line["log_level"], line["unwell"]) for line in logs} == {("info", 0)}


async def test_nothing_is_shown_while_postgres_is_away(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await reported(of_relay, settings, lambda: shown(settings)["well"] is not None)

    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        await reported(away, settings, lambda: set(shown(settings).values()) == {None})
