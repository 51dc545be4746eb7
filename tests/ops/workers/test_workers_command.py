"""`turnstile workers`: the state of each worker, and the turns that run."""

import json
from typing import Any

import pytest

from tests.ops.conftest import Turnstile
from tests.support.factories import PROVEN, make_worker_record
from tests.support.tampered_turns import make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.lost_turns import mark_lost
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.worker_registry import announce, program_version

PATIENT = {"TURNSTILE_LEASE_SECONDS": "30"}
"""A worker is silent after 40 s: no busy machine makes this test so slow."""


@pytest.fixture
def visibility_seconds() -> float:
    return 60.0


async def register(database: Database, worker_id: str, queue: str, **fields: Any) -> None:
    await announce(database, make_worker_record(queue, worker_id, busy=1, **fields))


async def test_a_worker_is_shown_with_its_state(turnstile: Turnstile, database: Database, settings: Settings) -> None:
    await register(database, "wanda", settings.queue)
    await register(database, "dora", settings.queue, draining=True)
    await register(database, "della", settings.queue, deaf_for_seconds=121.0)
    await register(database, "bella", settings.queue, blocked_for_seconds=12.0)
    await register(database, "stella", settings.queue, starved_for_seconds=30.0)
    await register(database, "berta", settings.queue, broken_by="KeyError")
    await register(database, "silvia", settings.queue)
    await tamper(settings, "UPDATE workers SET seen_at = now() - interval '5 min' WHERE worker_id = 'silvia'")

    ran = await turnstile("workers", "--json", **PATIENT)
    shown = await turnstile("workers", **PATIENT)
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    paused = await turnstile("workers", "--json", **PATIENT)

    always = {"dora": "draining", "bella": "blocked", "stella": "starved", "berta": "broken", "silvia": "silent"}
    assert states(ran.out) == {"wanda": "well", "della": "deaf", **always}
    assert states(paused.out) == {"wanda": "paused", "della": "paused", **always}
    (line,) = [line for line in shown.out.splitlines() if line.startswith("silvia")]
    assert "busy at heartbeat" in shown.out
    assert any(" blocked 12s  " in line for line in shown.out.splitlines() if line.startswith("bella"))
    assert any(" broken KeyError  " in line for line in shown.out.splitlines() if line.startswith("berta"))
    state, seen, *rest = line.split()[2:]
    assert (state, rest) == ("silent", ["ago", "1/4", "h", "7", program_version()])
    assert seen.startswith("5m")


async def test_a_worker_that_a_relay_gave_up_is_lost_and_after_ten_minutes_only_shown_on_demand(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    await register(database, "wanda", settings.queue)
    await register(database, "lotte", settings.queue)
    await tamper(settings, "UPDATE workers SET seen_at = now() - interval '5 min' WHERE worker_id = 'lotte'")

    [found] = await mark_lost(database, PROVEN.by, PROVEN.proven_seconds, 100)
    ran = await turnstile("workers", "--json", **PATIENT)
    listed = await turnstile("queues", "list", **PATIENT)
    await tamper(settings, "UPDATE workers SET lost_at = now() - interval '11 min' WHERE worker_id = 'lotte'")
    later = await turnstile("workers", "--json", **PATIENT)
    later_listed = await turnstile("queues", "list", **PATIENT)
    everyone = await turnstile("workers", "--all", "--json", **PATIENT)

    assert found.worker_id == "lotte"
    assert states(ran.out) == {"wanda": "well", "lotte": "lost"}
    assert states(later.out) == {"wanda": "well"}
    assert ("1/2" in listed.out, "1/1" in later_listed.out) == (True, True)
    assert states(everyone.out) == {"wanda": "well", "lotte": "lost"}


def states(out: str) -> dict[str, str]:
    return {worker["worker_id"]: worker["state"] for worker in json.loads(out)["workers"]}


async def test_the_running_turns_are_shown_with_their_ages(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turns = [str(await make_running(database, settings, session)) for session in "ab"]
    await tamper(settings, "UPDATE turns SET started_at = now() - interval '2 h' WHERE session_id = 'b'")

    ran = await turnstile("workers", "--json")
    shown = await turnstile("workers", "--limit", "1")

    running = json.loads(ran.out)["running"]
    assert [(one["turn_id"], one["worker_id"]) for one in running] == [(turns[1], "worker-a"), (turns[0], "worker-a")]
    assert running[0]["seconds"] >= 7200
    assert " 2h " in shown.out
    assert turns[0] not in shown.out
    assert "there may be more" in shown.err


async def test_an_undeclared_queue_is_refused(turnstile: Turnstile) -> None:
    assert (await turnstile("workers", "--queue", "nowhere")).code == 3
