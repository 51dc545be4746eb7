"""Scheduled turns and retries are sent when they are due, and get their place then."""

from datetime import UTC, datetime, timedelta

from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.factories import make_submission
from tests.support.relaying import RETRY, change, nothing_sent, rows, take
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.message import decode


async def test_a_scheduled_turn_has_no_place_and_no_message_before_its_time(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await submit(database, [make_submission(settings.queue, execute_at=later)], net_seconds=60.0)

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["seq"] is None


async def test_a_scheduled_turn_gets_its_place_when_it_falls_due(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await submit(database, [make_submission(settings.queue, content="later", execute_at=later)], net_seconds=60.0)
    await submit_turns(database, settings, "now")
    await database.fetch(
        "UPDATE turns SET execute_at = now() - interval '1 s', send_at = now() - interval '1 s' WHERE seq IS NULL", {}
    )

    await relay.round()

    scheduled, _ = await rows(database)
    assert scheduled["seq"] == 2
    (message,) = await take(queues, settings)
    assert decode(message.body).turn_id == scheduled["id"]


async def test_a_retry_is_sent_when_it_is_due(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claim_one(database, settings), RETRY)
    await relay.round()
    assert await nothing_sent(queues, settings)
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")

    await relay.round()

    await take(queues, settings)
    assert isinstance(await claim_one(database, settings), ClaimedTurn)
