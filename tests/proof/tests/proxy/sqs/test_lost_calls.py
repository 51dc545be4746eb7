"""SQS behind the proxy: calls that are lost before they are done, and calls whose response is lost."""

import asyncio
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError

from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.sqs.conftest import wake_up
from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues

COMMAND_TRIES = 2
"""The product's commands are tried once more; its polls are not."""


@pytest.mark.parametrize("toxic", ["error", "throttle", "request_lost", "reset", "cut"])
async def test_what_was_refused_or_lost_on_its_way_was_not_done_and_is_done_after_the_heal(
    behind: MessageQueues, queues: MessageQueues, queue: QueueSettings, proxy: ProxyControl, toxic: str
) -> None:
    await behind.find(queue.name)
    await proxy.set("sqs", "worker-1", toxic)

    with pytest.raises(QueueUnavailableError):
        await behind.send(queue.name, [wake_up()])

    assert await queues.count(queue.name) == 0
    assert await proxy.hits("sqs", toxic) >= 1
    await proxy.heal()
    assert await behind.send(queue.name, [wake_up()])


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
