"""SQS behind the proxy: what goes through unharmed, and calls that fail, get lost or are done and not answered."""

import asyncio
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.conftest import sqs_client
from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.sqs.conftest import receive, wake_up
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues

COMMAND_TRIES = 2
"""The product's commands are tried once more; its polls are not."""


async def test_messages_come_and_go_through_the_proxy(
    behind: MessageQueues, queue: QueueSettings, proxy: ProxyControl
) -> None:
    sent = [wake_up(f"s-{number}") for number in range(15)]

    assert await behind.send(queue.name, sent) == sent
    received = await receive(behind, queue.name, 15)
    await behind.delete(queue.name, received)

    assert {one.body for one in received} == {one.wake_up.encode() for one in sent}
    assert await behind.count(queue.name) == 0
    assert (await proxy.counts())["sqs/worker-1"]["requests"] >= 8


async def test_queue_urls_lead_back_through_the_proxy(
    plain: Any, queue: QueueSettings, url: str, sqs_port: int
) -> None:
    assert url.startswith(f"http://127.0.0.1:{sqs_port}/")
    listed = plain.list_queues(QueueNamePrefix=queue.sqs)["QueueUrls"]
    assert url in listed
    assert all(each.startswith(f"http://127.0.0.1:{sqs_port}/") for each in listed)


async def test_a_long_poll_waits_for_its_message(
    plain: Any, url: str, queues: MessageQueues, queue: QueueSettings
) -> None:
    poll = asyncio.create_task(asyncio.to_thread(plain.receive_message, QueueUrl=url, WaitTimeSeconds=4))

    await queues.send(queue.name, [wake_up()])

    assert len((await poll)["Messages"]) == 1


@pytest.mark.parametrize("toxic", ["error", "throttle", "request_lost", "answer_lost", "reset", "cut"])
async def test_every_way_to_fail_a_send_is_an_unavailable_queue_to_the_product(
    behind: MessageQueues, queue: QueueSettings, proxy: ProxyControl, toxic: str
) -> None:
    await behind.find(queue.name)
    await proxy.set("sqs", "worker-1", toxic)

    with pytest.raises(QueueUnavailableError):
        await behind.send(queue.name, [wake_up()])
    assert await proxy.hits("sqs", toxic) >= 1

    await proxy.heal()
    assert await behind.send(queue.name, [wake_up()])


@pytest.mark.parametrize(
    ("toxic", "code", "status"), [("error", "InternalFailure", 500), ("throttle", "RequestThrottled", 400)]
)
async def test_a_client_reads_the_code_that_sqs_would_have_answered(
    plain: Any, url: str, proxy: ProxyControl, toxic: str, code: str, status: int
) -> None:
    await proxy.set("sqs", "worker-1", toxic, count=1)

    with pytest.raises(ClientError) as caught:
        await asyncio.to_thread(plain.send_message, QueueUrl=url, MessageBody="x")

    assert caught.value.response["Error"]["Code"] == code
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert await asyncio.to_thread(plain.send_message, QueueUrl=url, MessageBody="x")


@pytest.mark.parametrize("toxic", ["error", "throttle", "request_lost"])
async def test_what_was_refused_or_lost_on_its_way_was_not_done(
    behind: MessageQueues, queues: MessageQueues, queue: QueueSettings, proxy: ProxyControl, toxic: str
) -> None:
    await behind.find(queue.name)
    await proxy.set("sqs", "worker-1", toxic)

    with pytest.raises(QueueUnavailableError):
        await behind.send(queue.name, [wake_up()])

    assert await queues.count(queue.name) == 0


async def test_a_send_whose_answer_is_lost_is_sent(
    behind: MessageQueues, queues: MessageQueues, queue: QueueSettings, proxy: ProxyControl
) -> None:
    await behind.find(queue.name)
    await proxy.set("sqs", "worker-1", "answer_lost", actions=["send"], count=COMMAND_TRIES)

    with pytest.raises(QueueUnavailableError):
        await behind.send(queue.name, [wake_up()])

    # Once for each try: the product's client tries again.
    assert await queues.count(queue.name) == COMMAND_TRIES
    assert await proxy.hits("sqs", "answer_lost") == COMMAND_TRIES


async def test_messages_whose_receive_was_not_answered_are_invisible_for_their_time_and_then_come_again(
    plain: Any, url: str, proxy: ProxyControl
) -> None:
    plain.send_message(QueueUrl=url, MessageBody="x")
    await proxy.set("sqs", "worker-1", "answer_lost", actions=["receive"], count=1)

    with pytest.raises(ConnectionClosedError):
        await asyncio.to_thread(plain.receive_message, QueueUrl=url, VisibilityTimeout=1)

    assert "Messages" not in plain.receive_message(QueueUrl=url)
    again = await until(lambda: plain.receive_message(QueueUrl=url, AttributeNames=["All"]).get("Messages"))
    assert again[0]["Attributes"]["ApproximateReceiveCount"] == "2"


async def test_of_a_batch_that_fails_in_part_the_rest_is_done(
    behind: MessageQueues, queues: MessageQueues, queue: QueueSettings, proxy: ProxyControl
) -> None:
    messages = [wake_up(f"s-{number}") for number in range(10)]
    await proxy.set("sqs", "worker-1", "partial_failure", share=0.5)

    sent = await behind.send(queue.name, messages)

    assert 0 < len(sent) < 10
    assert {one.body for one in await receive(queues, queue.name, len(sent))} == {one.wake_up.encode() for one in sent}
    assert await queues.count(queue.name) == len(sent)


async def test_an_sqs_that_is_away_resets_its_clients_and_is_found_again(
    behind: MessageQueues, queue: QueueSettings, proxy: ProxyControl, stack: Stack
) -> None:
    await behind.find(queue.name)
    stack.sqs.stop()
    try:
        with pytest.raises(QueueUnavailableError):
            await behind.send(queue.name, [wake_up()])
        assert await proxy.hits("sqs", "upstream_away") >= 1
    finally:
        stack.sqs.start()
        for name in (queue.sqs, queue.dlq):
            sqs_client(stack).create_queue(QueueName=name)

    assert await behind.send(queue.name, [wake_up()])
