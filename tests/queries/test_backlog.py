"""The plan of the backlog statement, and the log lines made of it. What it counts: tests/statements/test_backlog.py."""

import asyncio
import json
import re
from typing import Any, NoReturn

import psycopg
import pytest
import structlog.testing

from tests.statements.plans.touched import explain
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.queries.backlog import BACKLOG
from turnstile.relay.reports.backlog_metric import report_backlog
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.submit import submit


@pytest.mark.parametrize("filled", [False, True], ids=["empty table", "full table"])
def test_the_scan_is_by_the_index_and_reads_no_more_than_its_bound(settings: Settings, filled: bool) -> None:
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        if filled:
            connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
            connection.execute(
                "INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id)"
                " SELECT gen_random_uuid(), 't', 's' || g, 1, 'turns', 'PENDING', now(), now(), md5(g::text), 's'"
                " FROM generate_series(1, 1100) g"
            )
            connection.execute("ANALYZE turns")
        text = explain(connection, BACKLOG)
        assert "Index Scan using turns_open on turns e" in text or "Index Only Scan using turns_open on turns e" in text
        # Halted sessions are found by their rows, one look-up for each turn that is read.
        assert "Index Scan using sessions_pkey on sessions s" in text
        assert re.search(r"Limit\n +-> +Index Scan using turns_waiting on turns t", text), text
        assert "Seq Scan" not in text
        if filled:
            connection.execute(
                "INSERT INTO sessions (tenant_id, session_id, halted_by)"
                " SELECT 't', 's' || g, CASE WHEN g <= 50 THEN gen_random_uuid() END FROM generate_series(1, 1100) g"
            )
            [[_, due, ready, *_]] = connection.execute(
                BACKLOG, {"queues": ["turns"], "limit": 1000}, prepare=True
            ).fetchall()
            assert (due, ready) == (1000, 1000)


# --- the log


async def logged(database: Database, enough: int, **how: Any) -> list[dict[str, Any]]:
    stopping = asyncio.Event()
    with structlog.testing.capture_logs() as lines:
        reporting = asyncio.create_task(report_backlog(database, ["turns", "bulk"], stopping, **how))
        await until(lambda: len(lines) >= enough)
    stopping.set()
    await reporting
    return [dict(line) for line in lines]


async def test_each_queue_gets_a_log_line_also_without_a_backlog(database: Database) -> None:
    await submit(database, [make_submission("turns")], resend_seconds=60)
    await pause_queue(database, "bulk", paused_by="ada", reason=None)

    lines = await logged(database, 2)

    # Numbers, because metrics are made of them: `True` equals 1, and is not one in JSON.
    assert json.dumps([line["paused"] for line in lines]) == "[1, 0]"
    assert all(line.pop("oldest_seconds") >= 0 for line in lines)
    common = {"event": "queue.backlog", "log_level": "info", "running": 0, "truncated": False}
    assert lines == [
        {**common, "queue": "bulk", "due": 0, "ready": 0, "paused": 1},
        {**common, "queue": "turns", "due": 1, "ready": 1, "paused": 0},
    ]


async def test_an_unexpected_error_is_logged_and_the_reports_go_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> NoReturn:
        raise KeyError("a bug")

    monkeypatch.setattr(database, "fetch", fail)

    lines = await logged(database, 2, every_seconds=0.01)

    assert {line["event"] for line in lines} == {"backlog.failed"}


async def test_an_outage_of_postgres_is_logged_and_the_reports_go_on() -> None:
    async with Database(DatabasePlace("postgresql://127.0.0.1:1/none"), "test", size=1, wait_seconds=0.05) as away:
        lines = await logged(away, 2, every_seconds=0.01)

    assert {line["event"] for line in lines} == {"backlog.not_read"}
