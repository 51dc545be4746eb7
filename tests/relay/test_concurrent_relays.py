"""Concurrent relays, relays that die, and sessions that are locked: each row is sent once, and none is lost."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import turnstile.relay.loop
from tests.relay.relays import Sender, change, make_due, rows, take
from tests.support.claims import submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.submit import submit
from turnstile.turn.wire_format import decode


async def test_a_relay_that_dies_between_taking_and_sending_loses_nothing(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues, relay: Relay
) -> None:
    class DyingError(Exception):
        pass

    async def die() -> None:
        raise DyingError

    await submit_turns(database, settings, "one")
    await make_due(database)
    await Relay(of_relay, Sender(queues, die), settings).round()
    (row,) = await rows(database)
    assert 0 < row["send_in"] <= settings.relay_stamp_seconds
    await make_due(database)

    await relay.round()

    await take(queues, settings)


async def test_concurrent_relays_send_each_row_once(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues
) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(30)))
    await make_due(database)
    relays = [Relay(of_relay, queues, settings) for _ in range(3)]

    await asyncio.gather(*(relay.round() for relay in relays))

    messages = await take(queues, settings, 30)
    assert len({decode(message.body).turn_id for message in messages}) == 30
    assert {row["sends"] for row in await rows(database)} == {1}


async def test_concurrent_relays_place_each_scheduled_turn_once(
    database: Database, of_relay: Database, settings: Settings, queues: MessageQueues
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    for session in ("a", "b"):
        await submit(
            database,
            [make_submission(settings.queue, session, number, execute_at=later) for number in range(20)],
            resend_seconds=60.0,
        )
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")

    await asyncio.gather(*(Relay(of_relay, queues, settings).round() for _ in range(3)))

    found = await database.fetch("SELECT session_id, seq FROM turns ORDER BY 1, 2", {})
    assert [(row["session_id"], row["seq"]) for row in found] == [
        (session, seq) for session in ("a", "b") for seq in range(1, 21)
    ]


async def test_the_due_turns_of_a_locked_session_delay_no_other_session(
    database: Database, settings: Settings, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turnstile.relay.loop, "BATCH", 20)
    later = datetime.now(UTC) + timedelta(hours=1)
    many = [make_submission(settings.queue, "locked", number, execute_at=later) for number in range(21)]
    await submit(database, many, resend_seconds=60.0)
    await submit(database, [make_submission(settings.queue, "free", execute_at=later)], resend_seconds=60.0)
    await change(database, "execute_at = now() - interval '1 s', send_at = now() - interval '1 s'")
    await change(database, "send_at = now() - interval '1 h' WHERE session_id = 'locked'")
    async with await psycopg.AsyncConnection.connect(settings.database_url) as other:
        await other.execute("SELECT 1 FROM sessions WHERE session_id = 'locked' FOR NO KEY UPDATE")

        await relay.round()

        found = await database.fetch("SELECT seq FROM turns WHERE session_id = 'free'", {})
    assert [row["seq"] for row in found] == [1]
