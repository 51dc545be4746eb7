"""The queue latency decides the resend deadline of a wake-up; neither may be long because of old data."""

from collections.abc import Awaitable, Callable

import pytest

from tests.statements.calls import FAILURE
from tests.support.claims import claimed, settle_one, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.commands.submit_direct import submit_all
from turnstile.relay.loop import Relay
from turnstile.statements.redrive import revive
from turnstile.statements.submit import submit
from turnstile.submit.commit_then_wake import Submitting
from turnstile.submit.wake_ups import WakeUpSending
from turnstile.turn.identifiers import start_trace
from turnstile.worker.attempt.child_intake import ChildIntake


async def test_the_wait_of_a_redriven_turn_begins_with_its_redrive(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    failed = await claimed(database, settings)
    await settle_one(database, settings, failed, FAILURE)
    await database.fetch("UPDATE turns SET created_at = now() - interval '3 days'", {})
    await revive(database, [(failed.id, 1)], [start_trace(1)], expires_in_seconds=[900.0], resend_seconds=60.0)

    again = await claimed(database, settings)

    assert 0.0 <= again.queue_latency_seconds < 60.0


async def test_the_wait_of_a_turn_begins_with_its_submit(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    await database.fetch("UPDATE turns SET created_at = now() - interval '300 s'", {})

    turn = await claimed(database, settings)

    assert 300.0 <= turn.queue_latency_seconds < 360.0


LONG = 120.0
"""With this lease, forty seconds may pass between two heartbeats."""


@pytest.fixture
async def seen_a_minute_ago(database: Database, settings: Settings) -> None:
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, queue_latency_seconds, seen_at)"
        " VALUES ('w', %(q)s, 'h', 1, 1, 300, now() - interval '60 s')",
        {"q": settings.queue},
    )


async def by_submit_direct(database: Database, queues: MessageQueues, settings: Settings) -> None:
    submitting = Submitting(settings, database, WakeUpSending(queues, [settings.queue]))
    await submit_all(submitting, [make_submission(settings.queue)])


async def by_relay(database: Database, queues: MessageQueues, settings: Settings) -> None:
    await submit(database, [make_submission(settings.queue)], resend_seconds=0.0)
    await Relay(database, queues, settings).round()


async def by_parent(database: Database, queues: MessageQueues, settings: Settings) -> None:
    await ChildIntake(settings, database, queues).accept(make_submission(settings.queue))


@pytest.mark.stack
@pytest.mark.usefixtures("seen_a_minute_ago")
@pytest.mark.parametrize(
    ("way", "lease_seconds", "resend_seconds"),
    [
        (by_submit_direct, 30.0, 60.0),
        (by_submit_direct, LONG, 600.0),
        (by_relay, LONG, 600.0),
        (by_parent, LONG, 600.0),
    ],
)
async def test_a_worker_with_a_long_lease_counts_between_its_heartbeats(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    way: Callable[[Database, MessageQueues, Settings], Awaitable[None]],
    lease_seconds: float,
    resend_seconds: float,
) -> None:
    leased = {"lease_seconds": lease_seconds, "heartbeat_seconds": None, "resend_seconds": 60.0}

    await way(database, queues, settings.model_copy(update=leased))

    [row] = await database.fetch("SELECT extract(epoch FROM send_at - now())::float8 AS resend FROM turns", {})
    assert row["resend"] == pytest.approx(resend_seconds, abs=5.0)
