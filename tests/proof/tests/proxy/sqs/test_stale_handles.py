"""Receipt handles that do not count any more: three kinds of SQS, each with its own manners."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.sqs.conftest import receive, wake_up
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import ReceivedMessage

Handles = tuple[str, str]


@pytest.fixture
async def received_twice(behind: MessageQueues, queue: QueueSettings) -> list[ReceivedMessage]:
    """Two deliveries of one message: the handle of the first is stale."""
    await behind.send(queue.name, [wake_up()])
    (first,) = await receive(behind, queue.name)
    await behind.give_back(queue.name, [first])
    (second,) = await receive(behind, queue.name)
    assert first.message_id == second.message_id
    return [first, second]


async def use(proxy: ProxyControl, mode: str) -> None:
    await proxy.set("sqs", "all", "stale_handles", mode=mode)


def delete(plain: Any, url: str, *handles: str) -> list[str]:
    """Deletes in one batch; returns the codes of those that were refused."""
    entries = [{"Id": str(place), "ReceiptHandle": handle} for place, handle in enumerate(handles)]
    answer = plain.delete_message_batch(QueueUrl=url, Entries=entries)
    assert len(answer.get("Successful", [])) + len(answer.get("Failed", [])) == len(handles)
    return [refused["Code"] for refused in answer.get("Failed", [])]


@pytest.mark.parametrize(
    ("mode", "refused", "left"), [("aws", [], 1), ("moto", [], 0), ("elasticmq", ["ReceiptHandleIsInvalid"], 1)]
)
async def test_deleting_with_an_old_handle(
    proxy: ProxyControl,
    plain: Any,
    url: str,
    received_twice: list[ReceivedMessage],
    queues: MessageQueues,
    queue: QueueSettings,
    mode: str,
    refused: list[str],
    left: int,
) -> None:
    await use(proxy, mode)

    assert delete(plain, url, received_twice[0].receipt_handle) == refused

    assert await queues.count(queue.name) == left


@pytest.mark.parametrize(("mode", "refused"), [("aws", []), ("moto", []), ("elasticmq", ["ReceiptHandleIsInvalid"])])
async def test_deleting_a_second_time(
    proxy: ProxyControl, plain: Any, url: str, received_twice: list[ReceivedMessage], mode: str, refused: list[str]
) -> None:
    await use(proxy, mode)
    delete(plain, url, received_twice[1].receipt_handle)

    assert delete(plain, url, received_twice[1].receipt_handle) == refused


@pytest.mark.parametrize(("mode", "visible"), [("aws", False), ("moto", True), ("elasticmq", False)])
async def test_giving_back_with_an_old_handle(
    proxy: ProxyControl,
    plain: Any,
    url: str,
    behind: MessageQueues,
    received_twice: list[ReceivedMessage],
    queue: QueueSettings,
    mode: str,
    visible: bool,
) -> None:
    await use(proxy, mode)

    # The product never hears of it, whichever SQS it is.
    await behind.give_back(queue.name, received_twice[:1])

    assert bool(plain.receive_message(QueueUrl=url).get("Messages")) is visible


async def test_aws_refuses_to_extend_what_is_deleted(
    proxy: ProxyControl, plain: Any, url: str, received_twice: list[ReceivedMessage]
) -> None:
    handle = received_twice[1].receipt_handle
    delete(plain, url, handle)

    with pytest.raises(ClientError, match="InvalidParameterValue"):
        plain.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=5)
