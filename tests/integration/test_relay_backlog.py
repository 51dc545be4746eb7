"""The relay under trouble: a backlog from long ago is worked off at once, and one queue's refusal is its own affair."""

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.factories import make_submission
from tests.integration.test_claim import submit_turns
from turns.boto3_transport import Boto3Transport
from turns.database import Database
from turns.envelope import DeadLetter, OutgoingMessage
from turns.errors import QueueUnavailableError
from turns.message import WakeUp
from turns.message_queue import MessageQueues
from turns.relay import BATCH, Relay
from turns.settings import Settings
from turns.submission import submit


class Sender:
    """Takes all that it is given, except for the queues that refuse."""

    def __init__(self, *refusing: str) -> None:
        self._refusing = refusing
        self.sent: list[OutgoingMessage] = []

    async def send(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
        if queue in self._refusing:
            raise QueueUnavailableError("AccessDenied")
        self.sent += messages
        return list(messages)

    async def send_dead_letters(self, queue: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        raise AssertionError(f"{queue}: {letters}")


async def make_due(database: Database, seconds_ago: float) -> None:
    await database.fetch("UPDATE turns SET send_at = now() - make_interval(secs => %(ago)s)", {"ago": seconds_ago})


@pytest.mark.parametrize("seconds_ago", [1.0, 300.0, 86_400.0])
async def test_a_backlog_of_any_age_is_worked_off_round_by_round(
    database: Database, settings: Settings, seconds_ago: float
) -> None:
    many = 2 * BATCH + 100
    await submit_turns(database, settings, *map(str, range(many)))
    await make_due(database, seconds_ago)
    sender = Sender()
    relay = Relay(database, sender, settings)

    assert [await relay.round() for _ in range(3)] == [True, True, False]

    assert len({message.wake_up.turn_id for message in sender.sent}) == many


async def test_a_backlog_that_was_left_behind_by_a_full_round_is_not_forgotten(
    database: Database, settings: Settings
) -> None:
    """The old end counts as empty only once a round has found it so."""
    sender = Sender()
    relay = Relay(database, sender, settings)
    await submit_turns(database, settings, *map(str, range(BATCH)))
    await make_due(database, 300.0)
    assert await relay.round() is True
    await submit_turns(database, settings, "one more", session_id="other")
    await database.fetch("UPDATE turns SET send_at = now() - interval '300 s' WHERE session_id = 'other'", {})

    await relay.round()

    assert len(sender.sent) == BATCH + 1


@pytest.mark.parametrize("refusing", ["aaa", "zzz"])
async def test_a_queue_that_refuses_holds_up_no_other(database: Database, settings: Settings, refusing: str) -> None:
    await submit(
        database,
        [make_submission(refusing, "refused"), *(make_submission(settings.queue, f"s-{n}") for n in range(5))],
        net_seconds=60.0,
    )
    await make_due(database, 1.0)
    sender = Sender(refusing)

    await Relay(database, sender, settings).round()

    assert {message.wake_up.session_id for message in sender.sent} == {f"s-{number}" for number in range(5)}
    [refused] = await database.fetch(
        "SELECT sends, send_at > now() AS later FROM turns WHERE queue <> %(q)s", {"q": settings.queue}
    )
    assert refused == {"sends": 0, "later": True}


def breaking(send: Callable[..., Any], good_calls: int) -> Callable[..., Any]:
    """The real call, which finds no SQS after some good ones."""
    calls = 0

    def call(**arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > good_calls:
            raise EndpointConnectionError(endpoint_url="http://gone")
        return send(**arguments)

    return call


def client_of(queues: MessageQueues) -> Any:
    """The boto3 client of commands."""
    assert isinstance(queues._transport, Boto3Transport)
    return queues._transport._client


async def test_what_was_sent_before_sqs_went_away_counts_as_sent(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [OutgoingMessage(WakeUp("t", f"s-{number}", uuid4()), "") for number in range(25)]
    client = client_of(queues)
    monkeypatch.setattr(client, "send_message_batch", breaking(client.send_message_batch, 1))

    assert await queues.send(settings.queue, messages) == messages[:10]

    assert await queues.count(settings.queue) == 10


async def test_a_send_of_which_nothing_was_taken_says_that_sqs_is_away(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [OutgoingMessage(WakeUp("t", f"s-{number}", uuid4()), "") for number in range(25)]
    client = client_of(queues)
    monkeypatch.setattr(client, "send_message_batch", breaking(client.send_message_batch, 0))

    with pytest.raises(QueueUnavailableError):
        await queues.send(settings.queue, messages)
