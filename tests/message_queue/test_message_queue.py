"""The one home of all SQS calls, against a real SQS API, for standard and FIFO queues."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import uuid4

import pytest

from tests.conftest import sqs_client
from tests.message_queue.messages import TRACEPARENT, dead_letter, is_empty, receive, wake_up
from tests.support.probes import until
from tests.support.scripted_sqs import answer, scripted
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.wire_format import MAX_VISIBILITY_SECONDS, WakeUp, decode

both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


@pytest.fixture
def database_url() -> str:
    """No database is made: nothing here asks one."""
    return "postgresql://127.0.0.1:1/none"


@pytest.fixture
async def nowhere(settings: Settings) -> AsyncIterator[MessageQueues]:
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


@pytest.mark.parametrize("xray", [True, False])
async def test_a_message_carries_the_trace_header_of_aws_if_the_settings_say_so(
    settings: Settings, queue: QueueSettings, xray: bool
) -> None:
    async with scripted(answer(b'{"QueueUrl": "http://sqs/1/q"}'), answer(b'{"QueueUrl": "http://sqs/1/dlq"}')) as sqs:
        asked = MessageQueues(settings.model_copy(update={"xray": xray, "sqs_endpoint_url": sqs.address}))
        await asked.send(queue.name, [wake_up(), OutgoingMessage(WakeUp("t", "s", uuid4()), "")])
        await asked.close()

    traced, untraced = json.loads(sqs.requests[-1].body)["Entries"]
    header = f"Root=1-{'1' * 8}-{'1' * 24};Parent={'2' * 16};Sampled=1"
    wanted = {"AWSTraceHeader": {"DataType": "String", "StringValue": header}} if xray else None
    assert traced.get("MessageSystemAttributes") == wanted
    assert "MessageSystemAttributes" not in untraced


@both_kinds
async def test_sqs_accepts_a_message_with_the_trace_header(settings: Settings, queue: QueueSettings) -> None:
    queues = MessageQueues(settings.model_copy(update={"xray": True}))
    sent = wake_up()

    assert await queues.send(queue.name, [sent]) == [sent]

    (received,) = await receive(queues, queue)
    await queues.close()
    assert received.attributes == {"traceparent": TRACEPARENT}


async def test_an_extension_when_sqs_is_away_raises_nothing(
    queues: MessageQueues, nowhere: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up()])
    received = await receive(queues, queue)

    await nowhere.extend(await queues.find(queue.name), received)


# --- dead letters


async def test_a_dead_letter_has_the_reason_and_the_counts(queues: MessageQueues, queue: QueueSettings) -> None:
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


async def test_a_long_error_class_is_cut(queues: MessageQueues, queue: QueueSettings) -> None:
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
async def test_a_message_that_sqs_moved_to_the_dlq_is_marked(
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


@pytest.fixture
async def fleeting(settings: Settings) -> AsyncIterator[MessageQueues]:
    """One declared queue, `fleeting`, that SQS does not have."""
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


@pytest.mark.not_on("aws", "its queues are given by their URLs, so there is no look-up")
async def test_a_failed_look_up_of_a_queue_is_not_cached(nowhere: MessageQueues, queue: QueueSettings) -> None:
    for _ in range(2):
        with pytest.raises(QueueUnavailableError):
            await nowhere.find(queue.name)


# --- pure


@pytest.mark.parametrize(
    ("held_seconds", "left"),
    [(11 * 3600, 60), (MAX_VISIBILITY_SECONDS - 80, 20), (10**6, 0)],
)
def test_a_message_stays_invisible_for_twelve_hours_at_most(held_seconds: float, left: int) -> None:
    message = ReceivedMessage("id", "body", "handle", 1, {}, moved_by_sqs=False, received_at=1000.0)

    assert message.visibility_left(60.0, 1000.0 + held_seconds) == left


@pytest.mark.parametrize(("text", "generation"), [("12", 12), ("", None), ("-1", None), ("9" * 30, None)])
def test_an_invalid_generation_is_none(text: str, generation: int | None) -> None:
    attributes = {"turnstile.generation": text}

    message = ReceivedMessage("id", "body", "handle", 1, attributes, moved_by_sqs=False)

    assert message.dead_letter_generation == generation
