"""Several relays at once, and turns that change or are locked while a relay sends: each row is sent once, none is lost."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg

from tests.support.claiming import claim_one, settle_one, submit_turns
from tests.support.factories import make_submission
from tests.support.relaying import RETRY, Sender, change, make_due, rows, take
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.relay.queues import BATCH
from turnstile.statements.submit import submit
from turnstile.turn.message import decode


async def test_a_claim_that_comes_while_its_wake_up_is_sent_is_not_overwritten(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, "one")
    await make_due(database)

    await Relay(database, Sender(queues, lambda: claim_one(database, settings)), settings).round()

    (row,) = await rows(database)
    assert (row["status"], row["send_at"], row["sends"]) == ("RUNNING", None, 0)


async def test_a_retry_that_comes_while_its_wake_up_is_sent_keeps_its_time(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, "one")
    await make_due(database)

    async def claim_and_retry() -> None:
        await settle_one(database, settings, await claim_one(database, settings), RETRY)

    await Relay(database, Sender(queues, claim_and_retry), settings).round()

    (row,) = await rows(database)
    assert row["sends"] == 0
    assert row["send_in"] > 300


async def test_a_relay_that_dies_between_taking_and_sending_loses_nothing(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    class DyingError(Exception):
        pass

    async def die() -> None:
        raise DyingError

    await submit_turns(database, settings, "one")
    await make_due(database)
    await Relay(database, Sender(queues, die), settings).round()
    (row,) = await rows(database)
    assert 0 < row["send_in"] <= settings.relay_stamp_seconds
    await make_due(database)

    await relay.round()

    await take(queues, settings)


async def test_relays_that_run_at_once_send_each_row_once(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(60)))
    await make_due(database)
    relays = [Relay(database, queues, settings) for _ in range(3)]

    await asyncio.gather(*(relay.round() for relay in relays))

    messages = await take(queues, settings, 60)
    assert len({decode(message.body).turn_id for message in messages}) == 60
    assert {row["sends"] for row in await rows(database)} == {1}


async def test_relays_that_run_at_once_place_each_scheduled_turn_once(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for session in ("a", "b"):
        await submit(
            database,
            [make_submission(settings.queue, session, number, execute_at=later) for number in range(20)],
            net_seconds=60.0,
        )
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")

    await asyncio.gather(*(Relay(database, queues, settings).round() for _ in range(3)))

    found = await database.fetch("SELECT session_id, seq FROM turns ORDER BY 1, 2", {})
    assert [(row["session_id"], row["seq"]) for row in found] == [
        (session, seq) for session in ("a", "b") for seq in range(1, 21)
    ]


async def test_a_session_that_somebody_holds_keeps_no_other_waiting(
    database: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for session in ("held", "free"):
        await submit(database, [make_submission(settings.queue, session, execute_at=later)], net_seconds=60.0)
    await submit_turns(database, settings, "waits", session_id="unsent")
    await change(database, "execute_at = now() - interval '1 s' WHERE seq IS NULL")
    await make_due(database)
    async with await psycopg.AsyncConnection.connect(settings.database_url) as somebody:
        await somebody.execute("SELECT 1 FROM sessions WHERE session_id = 'held' FOR NO KEY UPDATE")

        await relay.round()

        sent = {decode(message.body).session_id for message in await take(queues, settings, 2)}
    assert sent == {"free", "unsent"}
    await relay.round()
    (message,) = await take(queues, settings)
    assert decode(message.body).session_id == "held"


async def test_a_session_that_somebody_holds_keeps_no_other_waiting_however_many_are_due_in_it(
    database: Database, settings: Settings, relay: Relay
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    many = [make_submission(settings.queue, "held", number, execute_at=later) for number in range(BATCH + 1)]
    await submit(database, many, net_seconds=60.0)
    await submit(database, [make_submission(settings.queue, "free", execute_at=later)], net_seconds=60.0)
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")
    await change(database, "send_at = now() - interval '1 h' WHERE session_id = 'held'")
    async with await psycopg.AsyncConnection.connect(settings.database_url) as somebody:
        await somebody.execute("SELECT 1 FROM sessions WHERE session_id = 'held' FOR NO KEY UPDATE")

        await relay.round()

        found = await database.fetch("SELECT seq FROM turns WHERE session_id = 'free'", {})
    assert [row["seq"] for row in found] == [1]
