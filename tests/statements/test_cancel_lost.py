"""A turn that was cancelled, and whose worker is lost, ends also while its queue is paused. No turn begins."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from structlog.testing import capture_logs

from tests.relay.relays import Sqs, submit_due
from tests.statements.plans.touched import execute, explain, prepare
from tests.support.claims import claimed, expire_leases, settle_one, submit_turns
from tests.support.factories import Proven
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.settings import Settings
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import cancel
from turnstile.statements.cancel_lost import END_LOST
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.settle import Superseded
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn


@pytest.fixture
async def running(database: Database, settings: Settings) -> ClaimedTurn:
    """The first of two turns of a session."""
    await submit_turns(database, settings, "one", "two")
    return await claimed(database, settings)


async def row_of(database: Database, turn_id: UUID) -> dict[str, Any]:
    [row] = await database.fetch("SELECT * FROM turns WHERE id = %(id)s", {"id": turn_id})
    return row


async def relayed(database: Database, settings: Settings) -> list[str]:
    """The events of a relay's round."""
    with capture_logs() as logs:
        await Relay(database, Sqs(), settings, Proven()).round()
    return [line["event"] for line in logs]


async def test_a_cancelled_turn_of_a_lost_worker_ends_while_its_queue_is_paused(
    database: Database, settings: Settings, running: ClaimedTurn
) -> None:
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    await cancel(database, "t", running.id, CancelReason.USER)
    await expire_leases(database)

    assert "turn.canceled" in await relayed(database, settings)

    row = await row_of(database, running.id)
    assert (row["status"], row["attempt"], row["crashes"], row["cancel_reason"]) == ("CANCELED", 1, 1, "user")
    assert (row["send_at"], row["lease_until"]) == (None, None)
    [attempt] = await database.fetch("SELECT fence, outcome, worker_id FROM turn_attempts", {})
    assert attempt == {"fence": running.fence, "outcome": "lost", "worker_id": "worker-a"}
    [heir] = await database.fetch("SELECT status, attempt, send_at <= now() AS due FROM turns WHERE seq = 2", {})
    assert heir == {"status": "PENDING", "attempt": 0, "due": True}


async def test_its_worker_that_comes_back_settles_nothing(
    database: Database, settings: Settings, running: ClaimedTurn
) -> None:
    await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    await cancel(database, "t", running.id, CancelReason.USER)
    await expire_leases(database)
    await relayed(database, settings)

    assert isinstance(await settle_one(database, settings, running), Superseded)


@pytest.mark.parametrize("missing", ["pause", "cancel", "loss", "mark"])
async def test_without_one_of_these_nothing_ends(
    database: Database, settings: Settings, running: ClaimedTurn, missing: str
) -> None:
    """On a queue that is not paused a worker takes the turn over, and ends it."""
    if missing != "pause":
        await pause_queue(database, settings.queue, paused_by="ada", reason=None)
    if missing != "cancel":
        await cancel(database, "t", running.id, CancelReason.USER)
    if missing != "loss":
        await expire_leases(database)
    if missing == "mark":
        # By a relay whose evidence allows no takeover.
        await database.fetch("UPDATE turns SET send_at = NULL WHERE status = 'RUNNING'", {})
        events = await unproven(database, settings)
    else:
        events = await relayed(database, settings)

    assert "turn.canceled" not in events
    assert (await row_of(database, running.id))["status"] == "RUNNING"


async def unproven(database: Database, settings: Settings) -> list[str]:
    with capture_logs() as logs:
        await Relay(database, Sqs(), settings).round()
    return [line["event"] for line in logs]


async def test_however_many_turns_wait_behind_the_pause_it_reads_only_lost_ones(
    database: Database, settings: Settings
) -> None:
    """A round looks once a second."""
    pinned = conninfo(settings.database_url, "test", pinned=True)
    with psycopg.connect(pinned, autocommit=True) as connection:
        at_first = explain(connection, END_LOST)
        await submit_due(database, settings.queue, 1_000)
        connection.execute("VACUUM ANALYZE turns")
        later = explain(connection, END_LOST)
        prepare(connection, "ending", END_LOST)
        touched = execute(connection, "ending", END_LOST, {"queues": [settings.queue], "limit": 500})

    assert all("turns_to_recover" in plan and "turns_send_at" not in plan for plan in (at_first, later))
    assert touched.rows < 10
