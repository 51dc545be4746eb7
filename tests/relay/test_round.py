"""What one round of the relay sends. What each of its statements does: tests/statements/test_relay.py."""

from datetime import UTC, datetime, timedelta

from tests.relay.relays import make_due, nothing_sent, rows, take
from tests.statements.calls import FAILURE
from tests.support.claims import claim_one, expire_leases, settle_one, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.wire_format import decode


async def test_a_lost_wake_up_is_sent_again_at_its_resend_deadline(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    assert await relay.round() is False
    assert await nothing_sent(queues, settings)
    await make_due(database)

    await relay.round()

    (message,) = await take(queues, settings)
    (row,) = await rows(database)
    assert decode(message.body).turn_id == row["id"]
    assert message.attributes["traceparent"] == f"00-{row['trace_id']}-{row['span_id']}-01"
    assert (row["status"], row["sends"]) == ("PENDING", 1)
    assert 0 < row["send_in"] <= settings.resend_seconds


async def test_the_resend_deadline_is_twice_the_queue_latency(
    database: Database, settings: Settings, relay: Relay
) -> None:
    await database.fetch(
        "INSERT INTO workers (worker_id, queue, host, pid, slots, queue_latency_seconds) VALUES ('w', %(q)s, 'h', 1, 1, 600)",
        {"q": settings.queue},
    )
    await submit_turns(database, settings, "one")
    await make_due(database)

    await relay.round()

    assert round((await rows(database))[0]["send_in"], -2) == 1200


async def test_a_scheduled_turn_gets_its_place_and_its_wake_up_in_one_round(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await submit(database, [make_submission(settings.queue, content="later", execute_at=later)], resend_seconds=60.0)
    await submit_turns(database, settings, "now")
    await database.fetch(
        "UPDATE turns SET execute_at = now() - interval '1 s', send_at = now() - interval '1 s' WHERE seq IS NULL", {}
    )

    await relay.round()

    scheduled, _ = await rows(database)
    assert scheduled["seq"] == 2
    (message,) = await take(queues, settings)
    assert decode(message.body).turn_id == scheduled["id"]


async def test_a_lost_turn_is_marked_and_sent_in_one_round(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await expire_leases(database)

    await relay.round()

    await take(queues, settings)
    (row,) = await rows(database)
    assert (row["status"], row["sends"]) == ("RUNNING", 1)
    assert row["send_in"] <= settings.takeover_resend_seconds


async def test_a_dead_letter_is_sent_once_and_noted(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    await settle_one(database, settings, turn, FAILURE)

    for _ in range(3):
        await relay.round()

    (letter,) = await take(queues, settings, dead=True)
    assert decode(letter.body).turn_id == turn.id
    assert letter.attributes == {
        "traceparent": f"00-{turn.trace_id}-{turn.span_id}-01",
        "turnstile.reason": "Boom",
        "turnstile.generation": "1",
        "turnstile.attempts": "1",
        "turnstile.fence": str(turn.fence),
        "turnstile.source_queue": settings.queue,
    }
    (row,) = await rows(database)
    assert (row["status"], row["send_at"]) == ("FAILED", None)
    assert row["dead_lettered_at"] is not None
    assert await nothing_sent(queues, settings)
