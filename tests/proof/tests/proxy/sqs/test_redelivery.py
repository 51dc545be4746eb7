"""Deliveries again, late and out of order, as a standard queue may make them."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.sqs.conftest import receive, wake_up
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import ReceivedMessage


@pytest.fixture
def visibility_seconds() -> float:
    """Longer than any test: what comes again, comes from the proxy."""
    return 60.0


async def send(queues: MessageQueues, queue: QueueSettings, many: int = 1) -> list[str]:
    """Sends; returns the bodies in order."""
    messages = [wake_up(f"s-{number}") for number in range(many)]
    await queues.send(queue.name, messages)
    return [message.wake_up.encode() for message in messages]


def ids(messages: Sequence[ReceivedMessage]) -> list[str]:
    return [message.message_id for message in messages]


async def test_a_message_comes_again_while_it_is_invisible(
    proxy: ProxyControl, behind: MessageQueues, queue: QueueSettings
) -> None:
    await send(behind, queue)
    first = await receive(behind, queue.name)
    await proxy.set("sqs", "worker-1", "duplicate", count=1)

    second = await behind.receive(queue.name, 10)

    assert ids(second) == ids(first)
    assert second[0].body == first[0].body
    assert second[0].receive_count == 2
    assert await proxy.hits("sqs", "duplicate") == 1
    assert await behind.receive(queue.name, 10) == []


async def test_a_message_comes_again_after_it_was_deleted_and_can_be_deleted_again(
    proxy: ProxyControl, behind: MessageQueues, queue: QueueSettings, plain: Any
) -> None:
    await send(behind, queue)
    first = await receive(behind, queue.name)
    await behind.delete(queue.name, first)
    await proxy.set("sqs", "worker-1", "duplicate", count=1)

    second = await behind.receive(queue.name, 10)

    assert ids(second) == ids(first)
    answer = plain.delete_message_batch(
        QueueUrl=(await behind.find(queue.name)).url,
        Entries=[{"Id": "0", "ReceiptHandle": second[0].receipt_handle}],
    )
    assert [one["Id"] for one in answer["Successful"]] == ["0"]


async def test_a_reordered_receive_holds_some_back_for_a_later_one_and_loses_none(
    proxy: ProxyControl, behind: MessageQueues, queue: QueueSettings
) -> None:
    sent = await send(behind, queue, 10)
    await proxy.set("sqs", "worker-1", "reorder", count=1, share=0.5, hold=0.05)

    first = await behind.receive(queue.name, 10)
    rest = await receive(behind, queue.name, 10 - len(first))

    assert 0 < len(first) < 10
    assert sorted(one.body for one in [*first, *rest]) == sorted(sent)
    assert [one.body for one in [*first, *rest]] != sent
    await behind.delete(queue.name, [*first, *rest])
    assert await behind.count(queue.name) == 0


@pytest.mark.parametrize("fifo", [True], ids=["fifo"])
async def test_a_fifo_queue_keeps_its_order_and_repeats_nothing(
    proxy: ProxyControl, behind: MessageQueues, queue: QueueSettings
) -> None:
    sent = await send(behind, queue, 10)
    for toxic in ("reorder", "duplicate"):
        await proxy.set("sqs", "worker-1", toxic)

    received = await receive(behind, queue.name, 10)

    assert [one.body for one in received] == sent
    assert await behind.receive(queue.name, 10) == []
    assert [await proxy.hits("sqs", toxic) for toxic in ("reorder", "duplicate")] == [0, 0]
