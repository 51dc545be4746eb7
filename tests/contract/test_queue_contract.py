"""`MessageQueues` gives the same results on SQS and on the simulation's fake."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.conftest import sqs_client
from tests.support.fakes.queue_model import StaleHandle
from tests.support.fakes.queues import FakeSqs, FakeSqsClient
from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import DeadLetter, OutgoingMessage, ReceivedMessage
from turnstile.turn.wire_format import WakeUp, decode

TRACEPARENT = f"00-{'1' * 32}-{'2' * 16}-01"


@dataclass(frozen=True, slots=True)
class Queues:
    """The product's calls on one queue and its DLQ, and a plain client of it."""

    product: MessageQueues
    name: str
    client: Any
    fifo: bool

    async def receive(self, many: int = 1, *, dead: bool = False) -> list[ReceivedMessage]:
        """Receives `many` messages, in as many polls as necessary."""
        found: list[ReceivedMessage] = []

        async def enough() -> bool:
            found.extend(await self.product.receive(self.name, 10, dead=dead))
            return len(found) >= many

        await until(enough)
        assert len(found) == many
        return found

    async def is_empty(self, *, dead: bool = False) -> bool:
        """Neither visible nor in flight."""
        return await self.product.count(self.name, dead=dead) == 0


both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
"""For calls that differ between the two kinds of queues."""


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.stack), "fake"])
async def queues(request: pytest.FixtureRequest, fifo: bool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Queues]:
    """The same calls, on SQS and on the fake."""
    name = f"turns-{uuid4().hex[:12]}"
    declared = QueueSettings.model_validate(
        {"name": name, "sqs": f"{name}.fifo" if fifo else name, "visibility_seconds": 4.0}
    )
    fields: dict[str, Any] = {"queues": (declared,), "queue": name, "lease_seconds": 1.5, "receive_wait_seconds": 1}
    product: MessageQueues
    if request.param != "fake":
        stack = request.getfixturevalue("stack")
        for variable, value in stack.environment().items():
            monkeypatch.setenv(variable, value)
        client = sqs_client(stack)
        product = MessageQueues(Settings(sqs_endpoint_url=stack.sqs.address, aws_region="us-east-1", **fields))
    else:
        client = FakeSqs(asyncio.get_running_loop().time)
        product = MessageQueues(Settings(**fields), FakeSqsClient(client))
    attributes = {"FifoQueue": "true"} if fifo else {}
    urls = [
        client.create_queue(QueueName=each, Attributes=attributes)["QueueUrl"] for each in (declared.sqs, declared.dlq)
    ]
    yield Queues(product, name, client, fifo)
    for url in urls:
        client.delete_queue(QueueUrl=url)
    if request.param != "fake":
        await product.close()


def wake_up(session: str = "s", turn_id: UUID | None = None) -> OutgoingMessage:
    return OutgoingMessage(WakeUp("t", session, turn_id or uuid4()), TRACEPARENT)


async def test_a_wake_up_is_received_with_its_trace_only(queues: Queues) -> None:
    sent = wake_up()

    assert await queues.product.send(queues.name, [sent]) == [sent]

    (received,) = await queues.receive()
    assert decode(received.body) == sent.wake_up
    assert received.attributes == {"traceparent": TRACEPARENT}
    assert (received.receive_count, received.dead_letter_generation, received.moved_by_sqs) == (1, None, False)


@both_kinds
async def test_more_messages_than_a_call_takes_are_all_sent_received_and_deleted(queues: Queues) -> None:
    messages = [wake_up(f"s-{number}") for number in range(25)]

    assert await queues.product.send(queues.name, messages) == messages

    received = await queues.receive(25)
    assert {decode(one.body) for one in received} == {message.wake_up for message in messages}
    await queues.product.delete(queues.name, received)
    assert await queues.is_empty()


async def test_a_delete_returns_only_the_messages_that_sqs_has_deleted(queues: Queues) -> None:
    if isinstance(queues.client, FakeSqs):
        for each in queues.client.queues.values():
            each.stale = StaleHandle.REFUSE
    await queues.product.send(queues.name, [wake_up(f"s-{number}") for number in range(12)])
    received = await queues.receive(12)
    refused = {0: "no handle of this queue", 11: "nor this"}
    asked = [replace(one, receipt_handle=refused.get(n, one.receipt_handle)) for n, one in enumerate(received)]

    gone = await queues.product.delete(queues.name, asked)

    assert gone == received[1:11]
    assert await queues.product.count(queues.name) == 2


async def test_a_message_in_flight_is_not_received_again(queues: Queues) -> None:
    await queues.product.send(queues.name, [wake_up()])
    await queues.receive()

    assert await queues.product.receive(queues.name, 10) == []
    assert not await queues.is_empty()


@both_kinds
async def test_a_message_that_is_given_back_is_received_again_and_counted(queues: Queues) -> None:
    await queues.product.send(queues.name, [wake_up()])
    first = await queues.receive()

    await queues.product.give_back(queues.name, first)

    (again,) = await queues.receive()
    assert (again.body, again.message_id, again.receive_count) == (first[0].body, first[0].message_id, 2)
    assert again.receipt_handle != first[0].receipt_handle


async def test_an_extension_counts_from_now(queues: Queues) -> None:
    await queues.product.send(queues.name, [wake_up()])
    received = await queues.receive()

    # An extension by zero seconds makes it visible at once.
    address = replace(await queues.product.find(queues.name), visibility_seconds=0.0)
    await queues.product.extend(address, received)

    assert (await queues.receive())[0].receive_count == 2


async def test_calls_for_a_deleted_message_raise_nothing(queues: Queues) -> None:
    await queues.product.send(queues.name, [wake_up()])
    gone = await queues.receive()
    await queues.product.delete(queues.name, gone)

    await queues.product.extend(await queues.product.find(queues.name), gone)
    await queues.product.give_back(queues.name, gone)
    await queues.product.delete(queues.name, gone)

    assert await queues.is_empty()


@both_kinds
async def test_a_dead_letter_goes_to_the_dlq_with_all_that_a_redrive_needs(queues: Queues) -> None:
    letter = DeadLetter(wake_up(), "Boom", attempts=3, fence=42, generation=2)

    assert await queues.product.send_dead_letters(queues.name, [letter]) == [letter]

    (received,) = await queues.receive(dead=True)
    assert decode(received.body) == letter.message.wake_up
    assert received.dead_letter_generation == 2
    assert received.attributes == {
        "traceparent": TRACEPARENT,
        "turnstile.reason": "Boom",
        "turnstile.generation": "2",
        "turnstile.attempts": "3",
        "turnstile.fence": "42",
        "turnstile.source_queue": queues.name,
    }
    assert await queues.is_empty()
    await queues.product.delete(queues.name, [received], dead=True)
    assert await queues.is_empty(dead=True)


@both_kinds
async def test_a_malformed_message_is_dead_lettered_unchanged(queues: Queues) -> None:
    extra: Any = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if queues.fifo else {}
    url = (await queues.product.find(queues.name)).url
    queues.client.send_message(QueueUrl=url, MessageBody="not json", **extra)
    (malformed,) = await queues.receive()

    await queues.product.dead_letter_malformed(queues.name, malformed, "body is not JSON")

    (dead,) = await queues.receive(dead=True)
    assert dead.body == "not json"
    assert dead.attributes == {
        "turnstile.reason": "malformed: body is not JSON",
        "turnstile.source_queue": queues.name,
    }


async def test_a_missing_queue_is_unknown(queues: Queues) -> None:
    with pytest.raises(UnknownQueueError):
        await queues.product.send("never-declared", [wake_up()])
    queues.product._addresses["gone"] = replace(await queues.product.find(queues.name), url=_url_of_nothing(queues))
    with pytest.raises(UnknownQueueError):
        await queues.product.receive("gone", 1)


def _url_of_nothing(queues: Queues) -> str:
    url: str = queues.client.create_queue(QueueName="gone")["QueueUrl"]
    queues.client.delete_queue(QueueUrl=url)
    return url


# --- FIFO


@pytest.mark.parametrize("fifo", [True], ids=["fifo"])
async def test_a_wake_up_that_is_sent_again_is_received_again(queues: Queues) -> None:
    message = wake_up()
    for _ in range(2):
        await queues.product.send(queues.name, [message])
        received = await queues.receive()
        assert decode(received[0].body) == message.wake_up
        await queues.product.delete(queues.name, received)


@pytest.mark.parametrize("fifo", [True], ids=["fifo"])
async def test_a_session_in_flight_delays_no_other_session(queues: Queues) -> None:
    await queues.product.send(queues.name, [wake_up("a"), wake_up("a"), wake_up("b")])
    first = (await queues.product.receive(queues.name, 1))[0]

    rest = await queues.product.receive(queues.name, 10)

    assert decode(first.body).session_id == "a"
    assert [decode(one.body).session_id for one in rest] == ["b"]
    await queues.product.delete(queues.name, [first])
    assert [decode(one.body).session_id for one in await queues.receive()] == ["a"]
