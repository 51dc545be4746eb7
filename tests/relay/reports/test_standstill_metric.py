"""The gauge and the log line of a queue at a standstill. When a queue is at one: tests/queries/test_progress.py."""

import asyncio

from structlog.testing import capture_logs

from tests.support.metric_readings import reading
from tests.support.probes import until
from tests.support.tampered_turns import make_pending, tamper
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.relay.reports.standstill_metric import report_standstill


async def reported(database: Database, queues: list[str], seconds: float | None) -> None:
    """Runs the report until the gauge of the first of these queues is at least so, or None."""
    stopping = asyncio.Event()
    running = asyncio.ensure_future(report_standstill(database, queues, stopping, every_seconds=0.01))

    def shown() -> bool:
        now = reading("turnstile_standstill_seconds", queue=queues[0])
        return now is None if seconds is None else now is not None and now >= seconds

    try:
        await until(shown)
    finally:
        stopping.set()
        await running


async def test_a_standstill_is_measured_and_logged_while_it_lasts(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await make_pending(database, settings)
    with capture_logs() as quiet:
        await reported(of_relay, [settings.queue], 0)
    await tamper(settings, "UPDATE turns SET queued_at = now() - interval '10 min'")

    with capture_logs() as logs:
        await reported(of_relay, [settings.queue], 600)

    assert quiet == []
    assert (logs[-1]["event"], logs[-1]["log_level"]) == ("queue.standstill", "warning")
    assert (logs[-1]["queue"], logs[-1]["due"], logs[-1]["running"], logs[-1]["slots"]) == (settings.queue, 1, 0, 0)
    assert 600 <= logs[-1]["seconds"] < 660


async def test_nothing_is_shown_while_postgres_is_away(
    database: Database, of_relay: Database, settings: Settings
) -> None:
    await reported(of_relay, [settings.queue], 0)

    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        await reported(away, [settings.queue], None)
