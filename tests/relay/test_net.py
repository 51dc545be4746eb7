"""The net: a wake-up that was lost is sent again when it is over."""

from uuid import UUID

from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.relaying import change, make_due, nothing_sent, rows, take
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.relay.queues import BATCH
from turnstile.turn.message import decode


async def test_a_wake_up_that_was_lost_is_sent_when_the_net_is_over(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await make_due(database)

    await relay.round()

    (message,) = await take(queues, settings)
    (row,) = await rows(database)
    assert decode(message.body).turn_id == row["id"]
    assert message.attributes["traceparent"] == f"00-{row['trace_id']}-{row['span_id']}-01"
    assert (row["status"], row["sends"]) == ("PENDING", 1)
    assert 0 < row["send_in"] <= settings.net_seconds


async def test_nothing_is_sent_before_the_net_is_over(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    before = await rows(database)

    assert await relay.round() is False

    assert await nothing_sent(queues, settings)
    assert [row["send_at"] for row in await rows(database)] == [row["send_at"] for row in before]


async def test_the_net_is_twice_as_long_as_turns_wait_at_present(
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


async def test_a_backlog_is_sent_in_full(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(BATCH + 30)))
    await make_due(database)

    assert await relay.round() is True
    assert await relay.round() is False

    assert await queues.count(settings.queue) == BATCH + 30


async def test_what_became_due_long_ago_is_found_by_the_first_round(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await change(database, "send_at = now() - interval '3 days'")

    await relay.round()

    await take(queues, settings)


async def test_a_turn_that_was_ended_meanwhile_is_owed_nothing(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    await submit_turns(database, settings, "one")
    await settle_one(database, settings, await claim_one(database, settings))

    await relay.round()

    assert await nothing_sent(queues, settings)
    ended: list[UUID] = [row["id"] for row in await rows(database) if row["send_at"] is not None]
    assert ended == []
