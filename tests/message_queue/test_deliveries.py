"""A message from its send to its deletion: batches, a return to the queue, an extension, and the order of FIFO queues."""

from dataclasses import replace

import pytest

from tests.conftest import sqs_client
from tests.message_queue.messages import dead_letter, is_empty, receive, wake_up
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues
from turnstile.turn.wire_format import decode

both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
only_fifo = pytest.mark.parametrize("fifo", [True], ids=["fifo"])


@pytest.fixture
def database_url() -> str:
    """No database is needed."""
    return "postgresql://127.0.0.1:1/none"


@both_kinds
async def test_more_messages_than_a_call_takes_are_all_sent_received_and_deleted(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    messages = [wake_up(f"s-{number}") for number in range(25)]

    assert await queues.send(queue.name, messages) == messages

    received = await receive(queues, queue, 25)
    assert {decode(one.body) for one in received} == {message.wake_up for message in messages}
    await queues.delete(queue.name, received)
    assert await is_empty(queues, queue)


async def test_a_delete_returns_only_the_messages_that_sqs_has_deleted(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up(f"s-{number}") for number in range(12)])
    received = await receive(queues, queue, 12)
    refused = {0: "no handle of this queue", 11: "nor this"}
    asked = [replace(one, receipt_handle=refused.get(n, one.receipt_handle)) for n, one in enumerate(received)]

    gone = await queues.delete(queue.name, asked)

    assert gone == received[1:11]
    assert await queues.count(queue.name) == 2


@both_kinds
async def test_a_message_that_is_given_back_is_received_again_and_counted(
    queues: MessageQueues, queue: QueueSettings
) -> None:
    await queues.send(queue.name, [wake_up()])
    [first] = await receive(queues, queue)

    await queues.give_back(queue.name, [first])

    [again] = await receive(queues, queue)
    assert (again.body, again.message_id, again.receive_count) == (first.body, first.message_id, 2)
    assert again.receipt_handle != first.receipt_handle


async def test_an_extension_counts_from_now(queues: MessageQueues, queue: QueueSettings) -> None:
    await queues.send(queue.name, [wake_up()])
    received = await receive(queues, queue)

    # An extension by zero seconds makes it visible at once.
    address = replace(await queues.find(queue.name), visibility_seconds=0.0)
    await queues.extend(address, received)

    assert (await receive(queues, queue))[0].receive_count == 2


async def test_calls_for_a_deleted_message_raise_nothing(queues: MessageQueues, queue: QueueSettings) -> None:
    await queues.send(queue.name, [wake_up()])
    gone = await receive(queues, queue)
    await queues.delete(queue.name, gone)

    await queues.extend(await queues.find(queue.name), gone)
    await queues.give_back(queue.name, gone)
    await queues.delete(queue.name, gone)

    assert await is_empty(queues, queue)


@both_kinds
async def test_a_malformed_message_is_copied_to_the_dlq_unchanged(
    stack: Stack, queues: MessageQueues, queue: QueueSettings, fifo: bool
) -> None:
    options = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if fifo else {}
    url = (await queues.find(queue.name)).url
    sqs_client(stack).send_message(QueueUrl=url, MessageBody="not json", **options)
    [malformed] = await receive(queues, queue)

    await queues.dead_letter_malformed(queue.name, malformed, "body is not JSON")

    [dead] = await receive(queues, queue, dead=True)
    assert dead.body == "not json"
    assert dead.attributes == {
        "turnstile.reason": "malformed: body is not JSON",
        "turnstile.source_queue": queue.name,
    }


# --- FIFO


@only_fifo
async def test_a_dead_letter_goes_to_the_dlq_of_a_fifo_queue(queues: MessageQueues, queue: QueueSettings) -> None:
    letter = dead_letter(wake_up())

    assert await queues.send_dead_letters(queue.name, [letter]) == [letter]

    [received] = await receive(queues, queue, dead=True)
    assert decode(received.body) == letter.message.wake_up


@only_fifo
async def test_a_wake_up_that_is_sent_again_is_received_again(queues: MessageQueues, queue: QueueSettings) -> None:
    message = wake_up()
    for _ in range(2):
        await queues.send(queue.name, [message])
        received = await receive(queues, queue)
        assert decode(received[0].body) == message.wake_up
        await queues.delete(queue.name, received)


@only_fifo
async def test_a_session_in_flight_delays_no_other_session(queues: MessageQueues, queue: QueueSettings) -> None:
    await queues.send(queue.name, [wake_up("a"), wake_up("a"), wake_up("b")])
    [first] = await queues.receive(queue.name, 1)

    rest = await queues.receive(queue.name, 10)

    assert decode(first.body).session_id == "a"
    assert [decode(one.body).session_id for one in rest] == ["b"]
    await queues.delete(queue.name, [first])
    assert [decode(one.body).session_id for one in await receive(queues, queue)] == ["a"]
