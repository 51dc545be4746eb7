"""The backlog as the table has it: what waits for a worker, what only waits for its own session, and for how long."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, NoReturn

import psycopg
import pytest
import structlog.testing

from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.probes import until
from turnstile.backends.postgres.database import Database, conninfo, number_placeholders
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.queries.backlog import BACKLOG, MOST, Backlog, read_backlog
from turnstile.relay.backlog_metric import report_backlog
from turnstile.statements.claim import CLAIM, claim
from turnstile.statements.settle import SETTLE
from turnstile.statements.submit import submit


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


async def submitted(database: Database, *sessions: str, queue: str = "turns", **fields: Any) -> None:
    await submit(database, [make_submission(queue, session, **fields) for session in sessions], net_seconds=60)


async def claimed(database: Database, settings: Settings, session: str) -> None:
    await claim(database, make_terms(settings), [make_claim(session)])


async def change(database: Database, what: LiteralString) -> None:
    await database.fetch(f"UPDATE turns SET {what}", {})


async def backlog(database: Database) -> Backlog:
    (found,) = await read_backlog(database, ["turns"])
    return found


def counts(found: Backlog) -> tuple[int, int, int]:
    return found.due, found.ready, found.running


async def test_an_empty_queue_has_none(database: Database) -> None:
    assert await backlog(database) == Backlog("turns", due=0, ready=0, oldest_seconds=0.0, running=0, truncated=False)


async def test_each_session_whose_head_is_due_is_work_for_one_more_worker(database: Database) -> None:
    await submitted(database, "a", "b", "b", "b")

    assert counts(await backlog(database)) == (4, 2, 0)


async def test_what_waits_behind_a_running_turn_is_no_work_for_another_worker(
    database: Database, settings: Settings
) -> None:
    await submitted(database, "a", "a", "b")
    await claimed(database, settings, "a")

    assert counts(await backlog(database)) == (2, 1, 1)


async def test_a_turn_that_is_scheduled_or_waits_for_its_retry_is_not_due(database: Database) -> None:
    await submitted(database, "later", execute_at=datetime.now(UTC) + timedelta(hours=1))
    await submitted(database, "retried")
    await database.fetch("UPDATE turns SET execute_at = now() + interval '1 minute' WHERE session_id = 'retried'", {})

    assert counts(await backlog(database)) == (0, 0, 0)


async def test_a_scheduled_turn_counts_from_its_time_on_also_before_it_has_its_place(database: Database) -> None:
    await submitted(database, "later", execute_at=datetime.now(UTC) + timedelta(hours=1))
    await change(database, "execute_at = now() - interval '10 s'")

    found = await backlog(database)

    assert counts(found) == (1, 1, 0)
    assert 10 <= found.oldest_seconds < 40


async def test_a_halted_session_is_no_work_for_anybody(database: Database) -> None:
    await submitted(database, "a", "b")
    await database.fetch("UPDATE sessions SET halted_by = gen_random_uuid() WHERE session_id = 'a'", {})

    assert counts(await backlog(database)) == (1, 1, 0)


async def test_the_age_is_that_of_the_oldest_that_could_be_claimed(database: Database, settings: Settings) -> None:
    """A turn that waits behind its own session's says nothing about a lack of workers."""
    await submitted(database, "a", "a", "b", "c")
    await claimed(database, settings, "a")
    await change(database, "created_at = now() - interval '1 hour'")
    await database.fetch("UPDATE turns SET created_at = now() - interval '90 s' WHERE session_id = 'b'", {})
    await database.fetch("UPDATE turns SET created_at = now() - interval '20 s' WHERE session_id = 'c'", {})

    assert 90 <= (await backlog(database)).oldest_seconds < 120


async def test_queues_are_counted_apart_however_deep_the_other_is(database: Database) -> None:
    await submitted(database, *(f"s-{number}" for number in range(50)), queue="bulk")
    await submitted(database, "a")

    found = await read_backlog(database, ["turns", "bulk", "empty"])

    assert [(one.queue, one.due) for one in found] == [("bulk", 50), ("empty", 0), ("turns", 1)]


@pytest.mark.parametrize("filled", [False, True], ids=["on an empty table", "on a full one"])
def test_the_scan_is_by_the_index_and_reads_no_more_than_its_bound(settings: Settings, filled: bool) -> None:
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        if filled:
            connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
            connection.execute(
                "INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id)"
                " SELECT gen_random_uuid(), 't', 's' || g, 1, 'turns', 'PENDING', now(), now(), md5(g::text), 's'"
                " FROM generate_series(1, 15000) g"
            )
            connection.execute("ANALYZE turns")
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(BACKLOG)[0]}").fetchall()  # type: ignore[call-overload]
        text = "\n".join(line for (line,) in plan)
        assert "Index Scan using turns_waiting on turns t" in text
        assert "Index Scan using turns_open on turns e" in text or "Index Only Scan using turns_open on turns e" in text
        # A halted session costs the probe of its row, and nobody a look at all that wait.
        assert "Index Scan using sessions_pkey on sessions s" in text
        assert re.search(r"Limit\n +-> +Index Scan using turns_waiting on turns t", text), text
        assert "Seq Scan" not in text
        if filled:
            connection.execute(
                "INSERT INTO sessions (tenant_id, session_id, halted_by)"
                " SELECT 't', 's' || g, CASE WHEN g <= 4000 THEN gen_random_uuid() END FROM generate_series(1, 15000) g"
            )
            [[_, due, ready, *_]] = connection.execute(
                BACKLOG, {"queues": ["turns"], "limit": MOST}, prepare=True
            ).fetchall()
            assert (due, ready) == (MOST, MOST)


@pytest.mark.parametrize("statement", [CLAIM, SETTLE], ids=["claim", "settle"])
def test_no_hot_statement_takes_the_index_for_its_own(settings: Settings, statement: LiteralString) -> None:
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(statement)[0]}").fetchall()  # type: ignore[call-overload]

    assert "turns_waiting" not in "\n".join(line for (line,) in plan)


# --- telling


async def test_it_is_told_as_one_line_a_queue_also_when_there_is_none(database: Database) -> None:
    await submitted(database, "a")
    stopping = asyncio.Event()
    with structlog.testing.capture_logs() as lines:
        telling = asyncio.create_task(report_backlog(database, ["turns", "bulk"], stopping))
        await until(lambda: len(lines) == 2)
    stopping.set()
    await telling

    assert all(line.pop("oldest_seconds") >= 0 for line in lines)
    assert lines == [
        {"event": "queue.backlog", "log_level": "info", "queue": "bulk", "due": 0, "ready": 0, "running": 0, "truncated": False},
        {"event": "queue.backlog", "log_level": "info", "queue": "turns", "due": 1, "ready": 1, "running": 0, "truncated": False},
    ]  # fmt: skip


async def test_a_bug_in_the_reading_is_told_and_the_telling_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> NoReturn:
        raise KeyError("a bug")

    monkeypatch.setattr(database, "fetch", fail)
    stopping = asyncio.Event()
    with structlog.testing.capture_logs() as lines:
        telling = asyncio.create_task(report_backlog(database, ["turns"], stopping, every_seconds=0.01))
        await until(lambda: len(lines) >= 2)
    stopping.set()
    await telling

    assert {line["event"] for line in lines} == {"backlog.failed"}


async def test_with_postgres_away_nothing_is_told_and_the_telling_goes_on() -> None:
    stopping = asyncio.Event()
    async with Database("postgresql://127.0.0.1:1/none", "test", size=1, wait_seconds=0.05) as away:
        with structlog.testing.capture_logs() as lines:
            telling = asyncio.create_task(report_backlog(away, ["turns"], stopping, every_seconds=0.01))
            await until(lambda: len(lines) >= 2)
        stopping.set()
        await telling

    assert {line["event"] for line in lines} == {"backlog.not_read"}
