"""A turn whose lease has expired is sent until a worker claims it."""

from tests.support.claiming import claim_one, expire_leases, submit_turns
from tests.support.relaying import change, make_due, nothing_sent, rows, take
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay


async def test_a_turn_whose_lease_ran_out_is_sent_and_sent_again_until_it_is_claimed(
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
    await make_due(database)

    await relay.round()

    await take(queues, settings)
    (row,) = await rows(database)
    assert settings.takeover_resend_seconds < row["send_in"] <= 2 * settings.takeover_resend_seconds


async def test_a_turn_whose_lease_is_alive_is_left_to_its_worker(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await change(database, "lease_until = now() + interval '1 hour'")

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["send_at"] is None


async def test_a_lease_that_was_renewed_after_all_is_forgotten(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await expire_leases(database)
    await relay.round()
    await take(queues, settings)
    await change(database, "lease_until = now() + interval '1 hour', send_at = now() - interval '1 s'")

    await relay.round()

    assert await nothing_sent(queues, settings)
    assert (await rows(database))[0]["send_at"] is None
