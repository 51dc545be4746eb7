"""The places of turns that were submitted in their callers' transactions: the relay gives them after the commit."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.relay.relays import rows, take
from tests.support.claims import submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.submission.callers_transaction import Submitter
from turnstile.turn.wire_format import decode


@pytest.fixture
def connection(settings: Settings) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(settings.database_url) as opened:
        yield opened


@pytest.fixture
def submitter(settings: Settings) -> Submitter:
    return Submitter(settings)


async def sessions(database: Database) -> dict[str, int]:
    found = await database.fetch("SELECT session_id, last_seq FROM sessions", {})
    return {row["session_id"]: row["last_seq"] for row in found}


async def test_a_new_session_gets_its_row_and_its_turns_their_places_and_wake_ups_in_one_round(
    database: Database,
    settings: Settings,
    queues: MessageQueues,
    relay: Relay,
    submitter: Submitter,
    connection: psycopg.Connection[Any],
) -> None:
    for said in ("a1", "b1", "a2"):
        submitter.submit(connection, f"new-{said[0]}", said)
    assert await relay.round() is False
    connection.commit()

    await relay.round()

    places = [(row["session_id"], row["seq"], row["status"]) for row in await rows(database)]
    assert places == [("new-a", 1, "PENDING"), ("new-b", 1, "PENDING"), ("new-a", 2, "PENDING")]
    assert await sessions(database) == {"new-a": 2, "new-b": 1}
    sent = {decode(message.body).turn_id for message in await take(queues, settings, 3)}
    assert sent == {row["id"] for row in await rows(database)}


async def test_the_turns_of_one_transaction_keep_their_order_behind_those_that_have_a_place(
    database: Database,
    settings: Settings,
    relay: Relay,
    submitter: Submitter,
    connection: psycopg.Connection[Any],
) -> None:
    submitted = [submitter.submit(connection, "s", f"{number}", tenant="t") for number in range(20)]
    await submit_turns(database, settings, "over the API")
    connection.commit()

    await relay.round()

    seqs = {row["id"]: row["seq"] for row in await rows(database)}
    assert [seqs[one.id] for one in submitted] == list(range(2, 22))
    assert await sessions(database) == {"s": 21}


async def test_a_scheduled_turn_makes_its_session_known_and_waits_without_a_place(
    database: Database, relay: Relay, submitter: Submitter, connection: psycopg.Connection[Any]
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    submitter.submit(connection, "s", "later", execute_at=later)
    submitter.submit(connection, "s", "now")
    connection.commit()

    await relay.round()

    scheduled, other = await rows(database)
    assert (scheduled["seq"], scheduled["send_at"], other["seq"]) == (None, later, 1)
    assert await sessions(database) == {"s": 1}
    await database.fetch("UPDATE turns SET execute_at = now(), send_at = now() WHERE seq IS NULL", {})
    await relay.round()
    assert [row["seq"] for row in await rows(database)] == [2, 1]


async def test_a_locked_turn_of_a_new_session_is_placed_once_it_is_free(
    database: Database, relay: Relay, submitter: Submitter, connection: psycopg.Connection[Any], settings: Settings
) -> None:
    submitter.submit(connection, "s", "new")
    connection.commit()
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT FROM turnstile.turns FOR UPDATE")
        await relay.round()
        assert [row["seq"] for row in await rows(database)] == [None]

    await relay.round()

    assert [row["seq"] for row in await rows(database)] == [1]
