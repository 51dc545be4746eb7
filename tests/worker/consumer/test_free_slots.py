"""The consumer receives for free slots only, and no failure costs it a slot or its poll."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from tests.conftest import sqs_client
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from tests.worker.consumer.consumers import Rig
from turnstile.errors import MessageStaysError, QueueUnavailableError, UnknownQueueError
from turnstile.turn.envelope import ReceivedMessage


def visible(stack: Stack, url: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(sqs_client(stack).get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


async def test_messages_are_received_for_free_slots_only(rig: Rig, stack: Stack) -> None:
    await rig.send(5)
    url = (await rig.queues.find(rig.settings.queue)).url

    async with rig.consuming(2, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 2)

        assert (len(consumer.in_flight), consumer.room - consumer._reserved) == (2, 0)
        assert visible(stack, url) == 3
        rig.release.set()
        await until(lambda: len(rig.received) == 5)

    assert max(rig.watched.most) == 2


async def test_a_handler_that_was_left_behind_keeps_its_slot_until_it_ends(rig: Rig) -> None:
    runaway: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(message: ReceivedMessage) -> "asyncio.Future[None] | None":
        rig.received.append(message)
        return runaway if len(rig.received) == 1 else None

    await rig.send(2)
    async with rig.consuming(1, work) as consumer:
        await until(lambda: len(rig.received) == 1 and len(consumer.in_flight) == 0)
        assert consumer.room - consumer._reserved == 0

        runaway.set_result(None)

        await until(lambda: len(rig.received) == 2)


@pytest.mark.parametrize("error", [ValueError("a bug of ours"), asyncio.CancelledError()], ids=["bug", "cancellation"])
async def test_a_failed_message_costs_neither_the_poll_nor_its_slot(rig: Rig, error: BaseException) -> None:
    async def work(message: ReceivedMessage) -> None:
        rig.received.append(message)
        if len(rig.received) <= 2:
            raise error

    await rig.send(3)
    async with rig.consuming(1, work) as consumer:
        await until(lambda: len(rig.received) == 3, within=10.0)
        await until(lambda: len(consumer.in_flight) == 0)


async def test_a_failed_receive_is_repeated(rig: Rig) -> None:
    rig.watched.trouble = [QueueUnavailableError("away"), UnknownQueueError("turns")]
    await rig.send(1)

    async with rig.consuming(4, rig.work_until_released):
        await until(lambda: rig.received)

    assert rig.watched.most[:3] == [4, 4, 4]


async def test_a_failure_after_a_success_is_the_first_of_its_outage(rig: Rig) -> None:
    """Otherwise each outage would begin with the longest pause of the one before."""
    rig.watched.trouble = [QueueUnavailableError("away")]
    with capture_logs() as lines:
        async with rig.consuming(4, rig.work_until_released):
            await until(lambda: rig.watched.polls == 2)
            rig.watched.open.clear()
            await rig.send(1)
            await until(lambda: rig.watched.polls == 3)
            rig.watched.trouble = [QueueUnavailableError("away")]
            rig.watched.open.set()
            await until(lambda: not rig.watched.trouble)

    assert [line["failures"] for line in lines if line["event"] == "consumer.receive_failed"] == [1, 1]


async def test_a_message_that_must_stay_is_given_back_and_comes_later_with_each_receive(rig: Rig) -> None:
    async def work(message: ReceivedMessage) -> None:
        rig.received.append(message)
        raise MessageStaysError("its row is locked")

    await rig.send(1)
    [message] = await until(lambda: rig.queues.receive(rig.settings.queue, 1))
    async with rig.consuming(1, work) as consumer:
        for receives in (1, 2):
            again = replace(message, receive_count=receives)
            await consumer._run_or_give_back(partial(work, again), again)

    [(_, first), (_, second)] = rig.watched.given_back
    assert 1.0 <= first <= 2.0 <= second <= 4.0
