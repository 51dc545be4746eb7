"""What the registry says of a worker, and which turns run."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from tests.support.factories import make_worker_record
from tests.support.tampered_turns import make_pending, make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.workers import RegisteredWorker, WorkerState, judge_worker, read_running, read_workers
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.worker_registry import announce

NOW = datetime(2026, 1, 1, tzinfo=UTC)

WORKER = RegisteredWorker(
    worker_id="w", queue="turns", host="h", pid=1, version="0.1.0", release="", slots=4, busy=0, draining=False,
    deaf_for_seconds=0.0, blocked_for_seconds=0.0, blocked_by=None, starved_for_seconds=0.0, broken_by=None,
    lease_seconds=30.0, started_at=NOW, seen_at=NOW, lost_at=None, alive=True, paused=False, read_at=NOW,
)  # fmt: skip

# A receive may take 120 s.
SETTINGS = Settings()


@pytest.mark.parametrize(
    ("worker", "state"),
    [
        (WORKER, WorkerState.WELL),
        (replace(WORKER, alive=False), WorkerState.SILENT),
        (replace(WORKER, deaf_for_seconds=119.0), WorkerState.WELL),
        (replace(WORKER, deaf_for_seconds=120.0), WorkerState.DEAF),
        (replace(WORKER, draining=True), WorkerState.DRAINING),
        (replace(WORKER, paused=True), WorkerState.PAUSED),
        (replace(WORKER, blocked_for_seconds=1.0), WorkerState.BLOCKED),
        (replace(WORKER, starved_for_seconds=29.0), WorkerState.WELL),
        (replace(WORKER, starved_for_seconds=30.0, paused=True), WorkerState.STARVED),
        (replace(WORKER, starved_for_seconds=29.0, lease_seconds=20.0), WorkerState.STARVED),
        (replace(WORKER, starved_for_seconds=30.0, blocked_for_seconds=1.0), WorkerState.BLOCKED),
        (replace(WORKER, broken_by="KeyError"), WorkerState.BROKEN),
        (replace(WORKER, broken_by="KeyError", paused=True, deaf_for_seconds=500.0), WorkerState.BROKEN),
        (replace(WORKER, broken_by="KeyError", starved_for_seconds=30.0), WorkerState.STARVED),
        # It hears nothing because it is blocked, and stays blocked when its queue is resumed.
        (replace(WORKER, blocked_for_seconds=1.0, paused=True, deaf_for_seconds=500.0), WorkerState.BLOCKED),
        (replace(WORKER, blocked_for_seconds=1.0, draining=True), WorkerState.DRAINING),
        # A worker that stops receives nothing more, and a killed one does nothing at all.
        (replace(WORKER, draining=True, paused=True, deaf_for_seconds=500.0), WorkerState.DRAINING),
        (replace(WORKER, draining=True, paused=True, deaf_for_seconds=500.0, alive=False), WorkerState.SILENT),
        # A relay has seen that its claims ran out, before four thirds of its lease.
        (replace(WORKER, lost_at=NOW), WorkerState.LOST),
        (replace(WORKER, lost_at=NOW, draining=True, alive=False), WorkerState.LOST),
    ],
)
def test_the_state_of_a_worker(worker: RegisteredWorker, state: WorkerState) -> None:
    assert judge_worker(worker, SETTINGS) is state


@pytest.mark.parametrize(
    ("lease_seconds", "seconds", "alive"), [(30, 39, True), (30, 41, False), (60, 79, True), (60, 81, False)]
)
async def test_a_worker_is_alive_by_its_own_lease(
    database: Database, settings: Settings, lease_seconds: int, seconds: int, alive: bool
) -> None:
    record = make_worker_record("turns", lease_seconds=lease_seconds)
    await announce(database, record)
    await tamper(settings, f"UPDATE workers SET seen_at = now() - interval '{seconds} s'")

    assert [one.alive for one in await read_workers(database)] == [alive]


async def test_a_worker_is_read_as_its_last_heartbeat_described_it(database: Database) -> None:
    record = make_worker_record("turns")
    await announce(database, record)
    unwell = {
        "deaf_for_seconds": 130.0, "blocked_for_seconds": 45.0, "blocked_by": uuid4(), "starved_for_seconds": 31.0,
        "broken_by": "KeyError",
    }  # fmt: skip
    await announce(database, replace(record, busy=3, draining=True, **unwell))
    await pause_queue(database, "turns", paused_by="ada", reason=None)

    (found,) = await read_workers(database)

    assert (found.host, found.pid, found.version, found.slots) == ("h", 7, record.version, 4)
    assert (found.busy, found.draining, found.paused) == (3, True, True)
    assert {name: getattr(found, name) for name in unwell} == unwell
    assert found.seen_at <= found.read_at


async def test_workers_are_those_of_the_queue(database: Database) -> None:
    for name, queue in (("a", "turns"), ("b", "bulk")):
        await announce(database, make_worker_record(queue, name))

    assert [one.worker_id for one in await read_workers(database, "bulk")] == ["b"]
    assert [one.worker_id for one in await read_workers(database)] == ["b", "a"]


async def test_a_worker_that_was_lost_long_ago_is_left_out_unless_asked_for(
    database: Database, settings: Settings
) -> None:
    for name, minutes in (("a", "NULL"), ("b", "9"), ("c", "11")):
        await announce(database, make_worker_record("turns", name))
        lost = f"UPDATE workers SET lost_at = now() - {minutes} * interval '1 min' WHERE worker_id = '{name}'"
        await tamper(settings, lost)
    # Not a worker of this queue, however long ago it was lost.
    await announce(database, make_worker_record("bulk", "d"))

    found = await read_workers(database, "turns")
    everyone = await read_workers(database, "turns", lost_long_ago=True)

    assert [(one.worker_id, one.lost_at is not None) for one in found] == [("a", False), ("b", True)]
    assert [one.worker_id for one in everyone] == ["a", "b", "c"]


async def test_running_turns_come_with_their_worker_and_age_those_that_run_longest_first(
    database: Database, settings: Settings
) -> None:
    turns = [await make_running(database, settings, session) for session in "ab"]
    await make_pending(database, settings, "c")
    await tamper(settings, "UPDATE turns SET started_at = now() - interval '1 min' WHERE session_id = 'b'")

    found = await read_running(database, settings.queue, 10)

    assert [(one.turn_id, one.worker_id) for one in found] == [(turns[1], "worker-a"), (turns[0], "worker-a")]
    assert found[0].seconds >= 60 > found[1].seconds
    assert await read_running(database, "another", 10) == []
    assert [one.turn_id for one in await read_running(database, None, 1)] == [turns[1]]
