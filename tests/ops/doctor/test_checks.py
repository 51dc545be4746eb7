"""Each check of the doctor in Postgres has its finding, and none for a healthy state that looks like it."""

from datetime import UTC, datetime, timedelta
from typing import LiteralString, cast
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.ops.dead_turns import make_failed
from tests.support.factories import make_submission, make_worker_record
from tests.support.tampered_turns import FRUITLESS, LOST, make_pending, make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.doctor.run_checks import DoctorFinding, look
from turnstile.statements.cancel import cancel
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.submit import submit
from turnstile.statements.worker_registry import announce
from turnstile.turn.cancel_reason import CancelReason

NOBODY = "messages: 3, workers of the queue that are alive: 0"

WORKER = """
INSERT INTO workers (worker_id, queue, host, pid, slots, queue_latency_seconds)
VALUES ('w', %(queue)s, 'h', 1, 1, %(queue_latency)s)
"""


TRACE: LiteralString = "a" * 32


async def only(settings: Settings) -> DoctorFinding:
    [found] = await look(settings, dlq=False)
    return found


async def codes(settings: Settings) -> list[str]:
    return [one.code for one in await look(settings, dlq=False)]


async def test_turns_that_wait_and_run_in_time_cause_no_finding(database: Database, settings: Settings) -> None:
    await make_pending(database, settings, "a")
    await make_running(database, settings, "b")

    assert await codes(settings) == []


async def test_messages_that_no_relay_sends_are_found_by_their_queue(database: Database, settings: Settings) -> None:
    for session in "abc":
        await make_pending(database, settings, session)
    await tamper(settings, "UPDATE turns SET queue = 'elsewhere', send_at = now() - interval '1 h'")

    found = await only(settings)

    assert (found.code, found.queue, found.detail) == ("send-overdue", "elsewhere", NOBODY)
    assert isinstance(found.since, datetime)


async def test_a_paused_queue_is_found_and_its_turns_are_not_late(database: Database, settings: Settings) -> None:
    await make_pending(database, settings, "a")
    await make_running(database, settings, "b")
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '1 h' WHERE status = 'PENDING'")
    await tamper(settings, LOST)
    await pause_queue(database, settings.queue, paused_by="ada", reason="maintenance")

    found = await only(settings)

    assert (found.code, found.queue, found.detail) == ("queue-paused", settings.queue, "by ada: maintenance")


async def test_dead_letters_that_no_relay_sends_are_overdue(database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["s"])
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '1 h'")

    assert await codes(settings) == ["send-overdue"]
    # A pause holds turns back, and no dead letter.
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    assert await codes(settings) == ["send-overdue", "queue-paused"]


@pytest.mark.parametrize(("turns", "found"), [(10_000, ["trace-grows"]), (9_999, [])])
async def test_a_trace_of_very_many_turns_with_an_open_child_goes_on(
    database: Database, settings: Settings, turns: int, found: list[str]
) -> None:
    await make_pending(database, settings)
    await tamper(settings, f"UPDATE turns SET parent_turn_id = gen_random_uuid(), trace_id = '{TRACE}'")
    assert await codes(settings) == []
    ended = f"""
        INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, finished_at, expires_at, trace_id, span_id)
        SELECT gen_random_uuid(), 't', 'e', n, 'turns', 'SUCCEEDED', now(), now(), '{TRACE}', 'b'
          FROM generate_series(2, {turns}) n"""
    await tamper(settings, cast("LiteralString", ended))

    assert [(one.code, one.subject) for one in await look(settings, dlq=False)] == [(code, TRACE) for code in found]


async def test_a_queue_with_due_turns_needs_a_living_worker(database: Database, settings: Settings) -> None:
    await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET created_at = now() - interval '2 h'")
    await database.fetch(WORKER, {"queue": settings.queue, "queue_latency": 0})
    living = await codes(settings)
    await tamper(settings, "UPDATE workers SET draining = true")
    draining = await codes(settings)
    await tamper(settings, "UPDATE workers SET draining = false, seen_at = now() - interval '1 h'")

    _, found = await look(settings, dlq=False)

    assert (living, draining) == ([], ["no-worker"])
    assert (found.code, found.subject) == ("no-worker", settings.queue)
    assert found.since is not None
    assert timedelta(minutes=59) < datetime.now(UTC) - found.since < timedelta(minutes=70), "the last heartbeat"
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    assert await codes(settings) == ["worker-silent", "queue-paused"]


async def test_workers_that_were_lost_lately_are_counted_by_queue_and_the_newest_is_named(
    database: Database, settings: Settings
) -> None:
    lost = {"old": "chat", "newest": "chat", "other": "bulk", "forgotten": "chat", "here": "chat"}
    for name, queue in lost.items():
        await announce(database, make_worker_record(queue, name))
    for name, minutes in (("old", 9), ("newest", 1), ("other", 5), ("forgotten", 11)):
        ago = f"now() - interval '{minutes} min'"
        await tamper(settings, f"UPDATE workers SET seen_at = {ago}, lost_at = {ago} WHERE worker_id = '{name}'")

    bulk, chat = await look(settings, dlq=False)

    assert (bulk.code, bulk.subject, bulk.detail) == (
        "workers-lost",
        "bulk",
        "in the last ten minutes: 1, the newest: other",
    )
    assert (chat.code, chat.subject, chat.detail) == (
        "workers-lost",
        "chat",
        "in the last ten minutes: 2, the newest: newest",
    )
    assert chat.since is not None
    assert bulk.since is not None
    assert chat.since > bulk.since
    assert chat.advice.startswith("see `turnstile workers --queue chat`, and")


async def test_a_worker_is_starved_by_its_own_lease(database: Database, settings: Settings) -> None:
    for name, about in {
        "starved": {"starved_for_seconds": 61.0},
        "well": {"starved_for_seconds": 59.0},
        "blocked": {"starved_for_seconds": 61.0, "blocked_for_seconds": 1.0},
    }.items():
        await announce(database, make_worker_record(settings.queue, name, lease_seconds=60.0, **about))

    found = await only(settings)

    assert (found.code, found.subject, found.queue) == ("worker-starved", "starved", settings.queue)
    assert found.since is not None
    assert timedelta(seconds=60) < datetime.now(UTC) - found.since < timedelta(minutes=10)


async def test_a_worker_with_a_broken_handler_is_found_until_it_stops(database: Database, settings: Settings) -> None:
    await announce(database, make_worker_record(settings.queue, "broken", broken_by="KeyError"))
    await announce(database, make_worker_record(settings.queue, "draining", broken_by="KeyError", draining=True))

    found = await only(settings)

    assert (found.code, found.subject, found.queue) == ("worker-broken", "broken", settings.queue)


async def test_a_worker_is_alive_by_its_own_lease_and_not_by_that_of_the_operator(
    database: Database, settings: Settings
) -> None:
    await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET created_at = now() - interval '1 h'")
    await database.fetch(WORKER, {"queue": settings.queue, "queue_latency": 0})
    await tamper(settings, "UPDATE workers SET lease_seconds = 600, seen_at = now() - interval '5 min'")
    patient = await codes(settings)
    await tamper(settings, "UPDATE workers SET lease_seconds = 60")

    assert (patient, await codes(settings.model_copy(update={"lease_seconds": 600.0}))) == (
        [],
        ["worker-silent", "no-worker"],
    )


async def test_a_turn_whose_worker_is_lost_is_found(database: Database, settings: Settings) -> None:
    turn = await make_running(database, settings)
    await tamper(settings, LOST)

    found = await only(settings)

    assert (found.code, found.turn_id, found.session_id) == ("running-past-lease", str(turn), "s")
    assert found.detail == "worker worker-a, attempt 1"


async def test_a_turn_is_past_its_lease_by_the_lease_of_its_worker_and_not_by_that_of_the_operator(
    database: Database, settings: Settings
) -> None:
    await make_running(database, settings)
    await tamper(settings, "UPDATE turns SET lease_until = now() - interval '5 min'")
    await announce(database, make_worker_record("elsewhere", "worker-a"))
    await tamper(settings, "UPDATE workers SET lease_seconds = 600")
    patient = await codes(settings)
    await tamper(settings, "UPDATE workers SET lease_seconds = 60")

    found = await codes(settings.model_copy(update={"lease_seconds": 600.0}))

    assert (patient, found) == ([], ["running-past-lease"])


async def test_in_a_busy_queue_a_turn_may_wait_for_its_takeover(database: Database, settings: Settings) -> None:
    await make_running(database, settings)
    await tamper(settings, "UPDATE turns SET lease_until = now() - interval '9 min'")
    await database.fetch(WORKER, {"queue": settings.queue, "queue_latency": 300})

    assert await codes(settings) == []


async def test_a_session_whose_wake_ups_bring_no_worker_is_found_by_its_head(
    database: Database, settings: Settings
) -> None:
    head, _ = await make_pending(database, settings), await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET sends = 3")
    three = await codes(settings)
    await tamper(settings, "UPDATE turns SET sends = 4")

    found = await only(settings)

    assert (three, found.code, found.turn_id) == ([], "session-stuck", str(head))


async def test_a_turn_behind_a_running_turn_is_not_stuck(database: Database, settings: Settings) -> None:
    await make_running(database, settings)
    await make_pending(database, settings)
    await tamper(settings, FRUITLESS)

    assert await codes(settings) == []


async def test_a_halted_session_is_halted_and_not_stuck(database: Database, settings: Settings) -> None:
    (failed,) = await make_failed(database, settings, ["s"], halt=True)
    await make_pending(database, settings)
    await tamper(settings, FRUITLESS)

    found = await only(settings)

    assert (found.code, found.turn_id) == ("session-halted", str(failed))
    assert found.detail == "ValueError, turns that wait behind it: 1"


@pytest.mark.parametrize("halted_by", ["gen_random_uuid()", "(SELECT id FROM turns WHERE status = 'CANCELED')"])
async def test_a_session_that_no_failed_turn_halts_is_stuck(
    database: Database, settings: Settings, halted_by: LiteralString
) -> None:
    canceled = await make_pending(database, settings, "other")
    await cancel(database, "t", canceled, CancelReason.USER)
    await make_pending(database, settings)
    await tamper(settings, FRUITLESS)
    await tamper(settings, f"UPDATE sessions SET halted_by = {halted_by} WHERE session_id = 's'")

    assert await codes(settings) == ["session-stuck"]


async def test_an_erasure_that_does_not_end_is_found(database: Database, settings: Settings) -> None:
    for hours in (0, 2):
        await database.fetch(
            """INSERT INTO erasures (id, tenant_id, session_id, requested_by, requested_at, turns)
               VALUES (gen_random_uuid(), 't', %(name)s, 'o', now() - make_interval(hours => %(hours)s), 3)""",
            {"name": f"s{hours}", "hours": hours},
        )

    found = await only(settings)

    assert (found.code, found.subject) == ("erasure-open", "session s2 of tenant t")
    assert found.detail == "turns erased so far: 3"


async def test_webhooks_that_no_relay_delivers_are_found(database: Database, settings: Settings) -> None:
    wanted = make_submission(settings.queue, webhook_url="https://hooks.example.com/")
    await submit(database, [wanted], resend_seconds=60)
    await cancel(database, "t", wanted.turn_id, CancelReason.USER)
    early = await codes(settings)
    await database.fetch("UPDATE webhooks SET due_at = now() - interval '1 h'", {})

    found = await only(settings)

    assert (early, found.code, found.detail) == ([], "webhooks-overdue", "webhooks: 1")


async def test_webhooks_beyond_what_is_read_are_or_more(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.doctor.run_checks.LIMIT", 2)
    for session in "abc":
        wanted = make_submission(settings.queue, session, webhook_url="https://hooks.example.com/")
        await submit(database, [wanted], resend_seconds=60)
        await cancel(database, "t", wanted.turn_id, CancelReason.USER)
    await database.fetch("UPDATE webhooks SET due_at = now() - interval '1 h'", {})

    assert (await only(settings)).detail == "webhooks: 2 or more"


@pytest.mark.parametrize("default", ["ROLE", "DATABASE"])
async def test_a_role_that_may_idle_in_a_transaction_without_end_is_found(settings: Settings, default: str) -> None:
    role = f"writer_{uuid4().hex[:12]}"
    name = role if default == "ROLE" else str(psycopg.conninfo.conninfo_to_dict(settings.database_url)["dbname"])
    change = SQL("ALTER {} {} SET idle_in_transaction_session_timeout =").format(SQL(default), Identifier(name))  # type: ignore[arg-type]
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as connection:
        await connection.execute(SQL("CREATE ROLE {} LOGIN").format(Identifier(role)))
        await connection.execute(SQL("GRANT UPDATE ON turns TO {}").format(Identifier(role)))
        by_the_server = await codes(settings)
        await connection.execute(change + SQL(" 0"))
        found = await only(settings)
        await connection.execute(change + SQL(" '1min'"))
        mended = await codes(settings)
        await connection.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(role)))

    assert (by_the_server, mended) == ([], [])
    assert found.code == "idle-in-transaction-timeout"
    assert role in found.detail
