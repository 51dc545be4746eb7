"""The one home of all SQS calls, against a real SQS API, for standard and FIFO queues."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.conftest import sqs_client
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import DeadLetter, OutgoingMessage, ReceivedMessage
from turnstile.turn.message import MAX_VISIBILITY_SECONDS, WakeUp, decode

TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"

both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


@pytest.fixture
def database_url() -> str:
    """No database is made: nothing here asks one."""
    return "postgresql://127.0.0.1:1/none"


def wake_up(session: str = "s", turn_id: UUID | None = None) -> OutgoingMessage:
    return OutgoingMessage(WakeUp("t", session, turn_id or uuid4()), TRACEPARENT)


def dead_letter(message: OutgoingMessage, error_class: str = "Boom") -> DeadLetter:
    return DeadLetter(message, error_class, attempts=3, fence=42, generation=2)


async def receive(
    queues: MessageQueues, queue: QueueSettings, many: int = 1, *, dead: bool = False
) -> list[ReceivedMessage]:
    """That many messages, in as many polls as it takes."""
    found: list[ReceivedMessage] = []

    async def enough() -> bool:
        found.extend(await queues.receive(queue.name, 10, dead=dead))
        return len(found) >= many

    await until(enough)
    assert len(found) == many
    return found


async def is_empty(queues: MessageQueues, queue: QueueSettings, *, dead: bool = False) -> bool:
    return await queues.count(queue.name, dead=dead) == 0


@pytest.fixture
async def nowhere(settings: Settings) -> AsyncIterator[MessageQueues]:
    """An SQS that is down."""
    opened = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": "http://127.0.0.1:1"}))
    yield opened
    await opened.close()


# --- there and back


@both_kinds
async def test_a_wake_up_travels_with_its_trace_and_nothing_else(queues: MessageQueues, queue: QueueSettings) -> None:
    sent = wake_up()

    assert await queues.send(queue.name, [sent]) == [sent]

    (received,) = await receive(queues, queue)
    assert decode(received.body) == sent.wake_up
    assert received.attributes == {"traceparent": TRACEPARENT}
    assert (received.receive_count, received.dead_letter_generation, received.moved_by_sqs) == (1, None, False)


@both_kinds
async def test_more_messages_than_a_call_takes_are_all_sent(queues: MessageQueues, queue: QueueSettings) -> None:
    messages = [wake_up(f"s-{number}") for number in range(25)]

    assert await queues.send(queue.name, messages) == messages

    received = await receive(queues, queue, 25)
    assert {decode(one.body) for one in received} == {message.wake_up for message in messages}


@both_kinds
async def test_messages_that_are_deleted_are_gone(queues: MessageQueues, queue: QueueSettings) -> None:
    await queues.send(queue.name, [wake_up(f"s-{number}") for number in range(12)])

    await queues.delete(queue.name, await receive(queues, queue, 12))

    assert await is_empty(queues, queue)


@both_kinds
async def test_a_message_that_is_given_back_can_be_received_at_once(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up()])
    first = await receive(queues, queue)

    await queues.give_back(queue.name, first)

    (again,) = await receive(queues, queue)
    assert again.body == first[0].body
    assert again.receive_count == 2


async def test_a_message_that_is_extended_stays_away_as_long_as_its_queue_says(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up()])
    received = await receive(queues, queue)

    # A queue that keeps messages for no time at all: what is extended for that long comes back at once.
    await queues.extend(replace(await queues.find(queue.name), visibility_seconds=0.0), received)

    assert (await receive(queues, queue))[0].receive_count == 2


@both_kinds
async def test_what_is_asked_of_a_message_that_is_gone_is_asked_in_vain_and_raises_nothing(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up()])
    gone = await receive(queues, queue)
    await queues.delete(queue.name, gone)

    await queues.extend(await queues.find(queue.name), gone)
    await queues.give_back(queue.name, gone)
    await queues.delete(queue.name, gone)

    assert await is_empty(queues, queue)


async def test_an_extension_when_sqs_is_away_raises_nothing(
    queues: MessageQueues, nowhere: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up()])
    received = await receive(queues, queue)

    await nowhere.extend(await queues.find(queue.name), received)


# --- FIFO


@pytest.mark.parametrize("fifo", [True], ids=["fifo"])
async def test_a_wake_up_that_is_sent_again_is_not_swallowed(queues: MessageQueues, queue: QueueSettings) -> None:
    message = wake_up()
    for _ in range(2):
        await queues.send(queue.name, [message])
        received = await receive(queues, queue)
        assert decode(received[0].body) == message.wake_up
        await queues.delete(queue.name, received)


@pytest.mark.parametrize("fifo", [True], ids=["fifo"])
async def test_a_session_in_flight_holds_up_no_other_session(queues: MessageQueues, queue: QueueSettings) -> None:
    await queues.send(queue.name, [wake_up("a"), wake_up("a"), wake_up("b")])
    first = (await queues.receive(queue.name, 1))[0]

    rest = await queues.receive(queue.name, 10)

    assert decode(first.body).session_id == "a"
    assert [decode(one.body).session_id for one in rest] == ["b"]


# --- dead letters


@both_kinds
async def test_a_dead_letter_carries_what_a_redrive_and_a_person_need(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    letter = dead_letter(wake_up())

    assert await queues.send_dead_letters(queue.name, [letter]) == [letter]

    (received,) = await receive(queues, queue, dead=True)
    assert decode(received.body) == letter.message.wake_up
    assert received.dead_letter_generation == 2
    assert received.attributes == {
        "traceparent": TRACEPARENT,
        "turnstile.reason": "Boom",
        "turnstile.generation": "2",
        "turnstile.attempts": "3",
        "turnstile.fence": "42",
        "turnstile.source_queue": queue.name,
    }
    assert await is_empty(queues, queue)


async def test_a_dead_letter_of_an_endless_class_is_sent_all_the_same(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send_dead_letters(queue.name, [dead_letter(wake_up(), "X" * 10_000)])

    (received,) = await receive(queues, queue, dead=True)
    assert received.attributes["turnstile.reason"] == "X" * 200


async def test_dead_letters_are_deleted_and_given_back_on_their_own_queue(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send_dead_letters(queue.name, [dead_letter(wake_up())])
    received = await receive(queues, queue, dead=True)
    await queues.give_back(queue.name, received, dead=True)

    await queues.delete(queue.name, await receive(queues, queue, dead=True), dead=True)

    assert await is_empty(queues, queue, dead=True)


@both_kinds
@pytest.mark.parametrize("body", ["not json", '{"v": 2}', "ü" * 3000, " "], ids=["text", "version", "long", "blank"])
async def test_a_malformed_message_is_dead_lettered_as_it_came(
    stack: Stack, queues: MessageQueues, queue: QueueSettings, fifo: bool, body: str
) -> None:
    extra: Any = {"MessageGroupId": "g", "MessageDeduplicationId": uuid4().hex} if fifo else {}
    url = (await queues.find(queue.name)).url
    sqs_client(stack).send_message(QueueUrl=url, MessageBody=body, **extra)
    (malformed,) = await receive(queues, queue)

    await queues.dead_letter_malformed(queue.name, malformed, "body is not JSON")

    (dead,) = await receive(queues, queue, dead=True)
    assert dead.body == body
    assert dead.attributes == {
        "turnstile.reason": "malformed: body is not JSON",
        "turnstile.source_queue": queue.name,
    }
    assert dead.dead_letter_generation is None


async def test_a_message_that_sqs_itself_dead_lettered_says_so(
    stack: Stack, queues: MessageQueues, queue: QueueSettings
) -> None:
    client = sqs_client(stack)
    address = await queues.find(queue.name)
    arn = client.get_queue_attributes(QueueUrl=address.dlq_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": "1"}}'
    client.set_queue_attributes(QueueUrl=address.url, Attributes={"RedrivePolicy": policy})
    await queues.send(queue.name, [wake_up()])
    await queues.give_back(queue.name, await receive(queues, queue))

    async def moved() -> list[ReceivedMessage]:
        await queues.receive(queue.name, 10)
        return await queues.receive(queue.name, 10, dead=True)

    (dead,) = await until(moved)
    assert dead.moved_by_sqs
    assert dead.dead_letter_generation is None


# --- it is not there


async def test_a_queue_that_is_not_declared_is_unknown(queues: MessageQueues) -> None:
    with pytest.raises(UnknownQueueError):
        await queues.send("never-declared", [wake_up()])


@pytest.fixture
async def fleeting(settings: Settings) -> AsyncIterator[MessageQueues]:
    """Knows one queue, `fleeting`, which is declared and not (yet) there."""
    declared = QueueSettings(name="fleeting")
    opened = MessageQueues(
        settings.model_copy(update={"queues": (declared,), "queues_by_name": {"fleeting": declared}})
    )
    yield opened
    await opened.close()


async def test_a_declared_queue_that_sqs_does_not_have_is_unknown(fleeting: MessageQueues) -> None:
    with pytest.raises(UnknownQueueError):
        await fleeting.find("fleeting")


async def test_a_queue_that_is_deleted_while_in_use_is_unknown(stack: Stack, fleeting: MessageQueues) -> None:
    client = sqs_client(stack)
    urls = [client.create_queue(QueueName=name)["QueueUrl"] for name in ("fleeting", "fleeting-dlq")]
    await fleeting.find("fleeting")
    for url in urls:
        client.delete_queue(QueueUrl=url)

    with pytest.raises(UnknownQueueError):
        await fleeting.receive("fleeting", 1)
    with pytest.raises(UnknownQueueError):
        await fleeting.send("fleeting", [wake_up()])


async def test_an_sqs_that_is_away_is_unavailable_for_every_call(
    queues: MessageQueues, nowhere: MessageQueues, queue: QueueSettings
) -> None:
    address = await queues.find(queue.name)
    dead_url = "http://127.0.0.1:1/queue/x"
    nowhere._addresses[queue.name] = replace(address, url=dead_url, dlq_url=dead_url)
    message = ReceivedMessage("id", "body", "handle", 1, {}, moved_by_sqs=False)

    answers = await asyncio.gather(
        nowhere.send(queue.name, [wake_up()]),
        nowhere.send_dead_letters(queue.name, [dead_letter(wake_up())]),
        nowhere.dead_letter_malformed(queue.name, message, "why"),
        nowhere.receive(queue.name, 1),
        nowhere.delete(queue.name, [message]),
        nowhere.give_back(queue.name, [message]),
        nowhere.count(queue.name),
        return_exceptions=True,
    )

    assert [type(answer) for answer in answers] == [QueueUnavailableError] * 7


@pytest.mark.not_on("aws", "its queues are given by their URLs, which nobody looks up")
async def test_looking_a_queue_up_when_sqs_is_away_is_tried_again_the_next_time(
    nowhere: MessageQueues, queue: QueueSettings
) -> None:
    for _ in range(2):
        with pytest.raises(QueueUnavailableError):
            await nowhere.find(queue.name)


# --- pure


@pytest.mark.parametrize(
    ("held_seconds", "left"),
    [(0, 60), (11 * 3600, 60), (MAX_VISIBILITY_SECONDS - 80, 20), (MAX_VISIBILITY_SECONDS, 0), (10**6, 0)],
)
def test_a_message_is_never_kept_invisible_for_more_than_twelve_hours_in_all(held_seconds: float, left: int) -> None:
    message = ReceivedMessage("id", "body", "handle", 1, {}, moved_by_sqs=False, received_at=1000.0)

    assert message.visibility_left(60.0, 1000.0 + held_seconds) == left


@pytest.mark.parametrize(
    ("text", "generation"), [("1", 1), ("12", 12), ("", None), ("-1", None), ("x", None), ("9" * 30, None)]
)
def test_a_generation_that_makes_no_sense_is_none(text: str, generation: int | None) -> None:
    attributes = {"turnstile.generation": text}

    message = ReceivedMessage("id", "body", "handle", 1, attributes, moved_by_sqs=False)

    assert message.dead_letter_generation == generation
