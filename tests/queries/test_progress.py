"""When a queue is at a standstill, and when turns only take their time."""

import re
from typing import LiteralString

import psycopg
import pytest

from tests.statements.plans.touched import explain
from tests.support.claims import claim_sessions
from tests.support.tampered_turns import make_pending, make_running, tamper
from tests.support.waiting_turns import RETRIED, SNOOZED, make_joining, make_scheduled, make_settled, make_worker
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.settings import Settings
from turnstile.queries.progress import BY_RANGE, PROGRESS, Progress, read_progress
from turnstile.statements.paused_queues import pause_queue

AGO: LiteralString = """UPDATE turns SET created_at = created_at - interval '10 min', queued_at = queued_at - interval '10 min',
    first_started_at = first_started_at - interval '10 min', started_at = started_at - interval '10 min'
 WHERE finished_at IS NULL"""
"""What has not ended was submitted, and began if it did, ten minutes before."""


async def read_one(database: Database, settings: Settings) -> Progress:
    [found] = await read_progress(database, [settings.queue])
    return found


async def is_still(database: Database, settings: Settings) -> bool:
    return (await read_one(database, settings)).standstill_seconds > 0


async def end(settings: Settings, *, minutes_ago: float, ran_minutes: float) -> None:
    """A turn of the queue that has succeeded."""
    ago, ran = f"interval '{minutes_ago} min'", f"interval '{ran_minutes} min'"
    await tamper(
        settings,
        f"""INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, expires_at, trace_id, span_id, queued_at,
                               first_started_at, finished_at)
            VALUES (gen_random_uuid(), 't', gen_random_uuid(), 1, '{settings.queue}', 'SUCCEEDED', now(), md5('x'), 's',
                    now() - {ago}, now() - {ago} - {ran}, now() - {ago})""",
    )


async def test_what_has_not_ended_is_counted_by_what_it_waits_for(database: Database, settings: Settings) -> None:
    await make_worker(database, settings, slots=4)
    await make_worker(database, settings, "leaving", slots=4, draining=True)
    await make_settled(database, settings, "snoozed", SNOOZED)
    await make_settled(database, settings, "retrying", RETRIED)
    await make_joining(database, settings, "joining")
    await make_scheduled(database, settings, "scheduled")
    await make_running(database, settings, "running")
    await make_pending(database, settings, "running")

    found = await read_one(database, settings)

    counts = (found.snoozed, found.retrying, found.joining, found.scheduled, found.running, found.slots)
    assert counts == (1, 1, 1, 1, 1, 4)
    # The child of the one that joins could begin; the turn behind the running one could not.
    assert (found.due, found.ready) == (2, 1)
    assert found.standstill_seconds == 0


async def test_snoozed_turns_of_two_sessions_and_no_end_are_a_standstill(
    database: Database, settings: Settings
) -> None:
    for session in "ab":
        await make_settled(database, settings, session, SNOOZED)
    fresh = await is_still(database, settings)
    await tamper(settings, AGO)

    found = await read_one(database, settings)
    await end(settings, minutes_ago=1, ran_minutes=0)

    assert not fresh
    assert 590 < found.standstill_seconds < 900
    assert not await is_still(database, settings), "a turn has ended a minute ago"


async def test_a_long_backlog_behind_snoozed_heads_does_not_hide_them(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.queries.progress.PROGRESS", PROGRESS.replace("LIMIT 10000\n", "LIMIT 2\n"))
    for session in "ab":
        await make_settled(database, settings, session, SNOOZED)
        for _ in range(2):
            await make_pending(database, settings, session)
    await tamper(settings, AGO)

    found = await read_one(database, settings)

    assert (found.snoozed, found.due, found.ready) == (2, 2, 0)
    assert found.standstill_seconds > 0


async def test_a_turn_that_has_waited_for_a_slot_all_the_time_is_a_standstill(
    database: Database, settings: Settings
) -> None:
    await make_pending(database, settings)
    await tamper(settings, AGO)

    assert await is_still(database, settings)
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    assert not await is_still(database, settings)


async def test_after_a_pause_a_turn_that_has_begun_shows_that_turns_go_on(
    database: Database, settings: Settings
) -> None:
    for session in "ab":
        await make_pending(database, settings, session)
    await tamper(settings, AGO)
    before = await is_still(database, settings)
    await claim_sessions(database, settings, "a")

    assert (before, await is_still(database, settings)) == (True, False)


@pytest.mark.parametrize("others", [0, 1])
async def test_one_slow_turn_alone_is_none(database: Database, settings: Settings, others: int) -> None:
    await end(settings, minutes_ago=60, ran_minutes=0.1)
    for session in ["slow", *["another"] * others]:
        await make_running(database, settings, session)
    # The next turn of the slow one's session waits for it.
    await make_pending(database, settings, "slow")
    await tamper(settings, AGO)

    assert await is_still(database, settings) is (others > 0)


async def test_where_turns_take_long_it_is_usual_that_none_ends_for_long(
    database: Database, settings: Settings
) -> None:
    for session in "ab":
        await make_running(database, settings, session)
    await tamper(settings, AGO)
    unknown = await is_still(database, settings)
    await end(settings, minutes_ago=60, ran_minutes=0.1)
    quick = await is_still(database, settings)
    await end(settings, minutes_ago=60, ran_minutes=9)

    assert (unknown, quick, await is_still(database, settings)) == (False, True, False)


async def test_parents_that_wait_for_children_and_scheduled_turns_are_none(
    database: Database, settings: Settings
) -> None:
    for session in "ab":
        _, child = await make_joining(database, settings, session)
        await make_scheduled(database, settings, f"scheduled-{session}")
        await database.fetch("DELETE FROM turns WHERE id = %(id)s RETURNING id", {"id": child})
    await tamper(settings, AGO)

    assert not await is_still(database, settings)


async def test_a_failed_turn_has_ended(database: Database, settings: Settings) -> None:
    for session in "ab":
        await make_settled(database, settings, session, SNOOZED)
    await tamper(settings, AGO)
    await end(settings, minutes_ago=1, ran_minutes=0)
    await tamper(settings, "UPDATE turns SET status = 'FAILED' WHERE status = 'SUCCEEDED'")

    assert not await is_still(database, settings)


# --- what it reads


@pytest.mark.parametrize("filled", [False, True], ids=["empty table", "full table"])
def test_only_what_waits_runs_or_has_ended_lately_is_read(settings: Settings, filled: bool) -> None:
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        if filled:
            connection.execute("SET session_replication_role = replica")
            connection.execute(
                "INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, send_at, expires_at, trace_id, span_id)"
                " SELECT gen_random_uuid(), 't', 's' || g, 1, 'turns', 'PENDING', now(), now(), md5('x'), 's'"
                " FROM generate_series(1, 1100) g"
            )
            connection.execute("ANALYZE turns")
        connection.execute(BY_RANGE.replace("true", "false"))
        text = explain(connection, PROGRESS)

    assert "Seq Scan on turns" not in text
    assert text.count("Index Scan Backward using turns_finished_at") == 2, text
    assert re.search(r"Limit\n +-> +Index Scan using turns_waiting on turns t", text), text
