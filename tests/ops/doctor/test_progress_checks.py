"""The doctor finds that nothing ends, that much fails, and workers that take or end none; and not what only looks like it."""

import re
from typing import Any, LiteralString

import pytest

from tests.ops.dead_turns import make_failed
from tests.support.claims import claim_sessions, settle_one
from tests.support.tampered_turns import make_pending, tamper
from tests.support.waiting_turns import RETRIED, SNOOZED, make_settled, make_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.doctor.run_checks import DoctorFinding, look
from turnstile.statements.paused_queues import pause_queue

BEGAN_TEN_MINUTES_AGO: LiteralString = """
UPDATE turns SET queued_at = queued_at - interval '10 min', first_started_at = first_started_at - interval '10 min'"""


async def found(settings: Settings) -> dict[str, DoctorFinding]:
    return {one.code: one for one in await look(settings, dlq=False)}


async def test_a_standstill_says_what_the_turns_wait_for(database: Database, settings: Settings) -> None:
    await make_worker(database, settings, slots=4)
    for session in "ab":
        await make_settled(database, settings, session, SNOOZED)
    await make_settled(database, settings, "c", RETRIED)
    quick = await found(settings)
    await tamper(settings, BEGAN_TEN_MINUTES_AGO)

    standstill = (await found(settings))["standstill"]

    assert quick == {}
    assert (standstill.subject, standstill.queue) == (settings.queue, settings.queue)
    assert standstill.detail == "snoozed 2, retrying 1, running 0 of 4 slots"
    assert standstill.since is not None


async def test_a_standstill_says_that_no_slot_is_free(database: Database, settings: Settings) -> None:
    await make_worker(database, settings, slots=1)
    await make_pending(database, settings, "runs")
    await claim_sessions(database, settings, "runs")
    await make_pending(database, settings, "waits")
    await tamper(settings, BEGAN_TEN_MINUTES_AGO)
    await tamper(settings, "UPDATE turns SET started_at = now() - interval '9 min' WHERE status = 'RUNNING'")

    standstill = (await found(settings))["standstill"]

    assert re.fullmatch(r"due 1, running 1 of 1 slots \(longest 9m\w*\), no slot is free", standstill.detail)


async def test_a_queue_without_a_worker_causes_the_finding_no_worker(database: Database, settings: Settings) -> None:
    await make_pending(database, settings)
    await tamper(settings, "UPDATE turns SET created_at = now() - interval '1 h', queued_at = now() - interval '1 h'")

    assert list(await found(settings)) == ["no-worker"]


async def test_failures_are_a_finding_by_their_share_and_with_their_class(
    database: Database, settings: Settings
) -> None:
    await make_failed(database, settings, ["a", "b"])
    two = await found(settings)
    await make_failed(database, settings, ["c"], error_class="TimeoutError")
    failing = (await found(settings))["failing"]
    for number in range(12):
        await make_pending(database, settings, f"s{number}")
        await settle_one(database, settings, *await claim_sessions(database, settings, f"s{number}"))
    few = await found(settings)

    assert (two, few) == ({}, {})
    assert (failing.subject, failing.detail) == (settings.queue, "3 of 3, most often ValueError")


async def test_old_failures_cause_no_finding(database: Database, settings: Settings) -> None:
    await make_failed(database, settings, ["a", "b", "c"])
    await tamper(settings, "UPDATE turns SET finished_at = now() - interval '6 min'")

    assert await found(settings) == {}


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("worker-blocked", {"blocked_for_seconds": 12.0}),
        ("worker-deaf", {"deaf_for_seconds": 121.0}),
        (None, {"blocked_for_seconds": 2.0}),
        (None, {"deaf_for_seconds": 30.0}),
        (None, {"deaf_for_seconds": 121.0, "draining": True}),
    ],
)
async def test_a_worker_that_does_not_go_on_is_found_once_it_lasts(
    database: Database, settings: Settings, code: str | None, fields: dict[str, Any]
) -> None:
    await make_worker(database, settings, **fields)
    await make_pending(database, settings)
    await claim_sessions(database, settings, "s")

    findings = await found(settings)

    assert list(findings) == ([code] if code else [])
    assert [(one.subject, one.detail) for one in findings.values()] == [("worker-a", "turns that it runs: 1")] * len(
        findings
    )


async def test_a_worker_of_a_paused_queue_is_not_deaf(database: Database, settings: Settings) -> None:
    await make_worker(database, settings, deaf_for_seconds=121.0)
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)

    assert list(await found(settings)) == ["queue-paused"]


async def test_a_worker_without_heartbeats_is_silent_until_a_relay_gives_it_up(
    database: Database, settings: Settings
) -> None:
    await make_worker(database, settings)
    await tamper(settings, "UPDATE workers SET seen_at = now() - interval '1 h'")

    silent = await found(settings)
    await tamper(settings, "UPDATE workers SET lost_at = now()")

    assert list(silent) == ["worker-silent"]
    assert list(await found(settings)) == ["workers-lost"]
