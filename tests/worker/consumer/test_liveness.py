"""Liveness of the consumer: when it counts as deaf, and when as full."""

import asyncio

import pytest

from tests.support.consuming import Rig
from tests.support.probes import until
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.turn.envelope import ReceivedMessage


async def test_a_consumer_that_receives_is_not_deaf(rig: Rig) -> None:
    async with rig.consuming(4, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls)
        consumer._returned_at -= 1000
        await rig.send(1)
        await until(lambda: rig.received)

        assert consumer.deaf_for() < 500


async def test_it_is_full_while_all_slots_are_at_work_and_not_while_one_waits_for_a_message(rig: Rig) -> None:
    await rig.send(1)
    async with rig.consuming(2, rig.work_until_released) as consumer:
        await until(lambda: len(consumer.in_hand) == 1 and consumer._room_left == 0)
        assert not consumer.full

        await rig.send(1)
        await until(lambda: len(consumer.in_hand) == 2)
        assert consumer.full


async def test_a_consumer_whose_slots_are_all_at_work_is_not_deaf(rig: Rig) -> None:
    await rig.send(1)
    async with rig.consuming(1, rig.work_until_released) as consumer:
        await until(lambda: rig.received)

        assert consumer.deaf_for() == 0


async def test_a_consumer_whose_slots_are_all_lost_to_runaways_is_deaf(rig: Rig) -> None:
    runaway: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(message: ReceivedMessage) -> "asyncio.Future[None]":
        rig.received.append(message)
        return runaway

    await rig.send(1)
    async with rig.consuming(1, work) as consumer:
        await until(lambda: rig.received and len(consumer.in_hand) == 0)

        assert await until(consumer.deaf_for) > 0
        runaway.set_result(None)


@pytest.mark.parametrize(
    "error", [QueueUnavailableError("away"), UnknownQueueError("turns")], ids=lambda error: type(error).__name__
)
async def test_a_consumer_whose_receives_have_begun_to_fail_is_not_deaf(rig: Rig, error: Exception) -> None:
    async with rig.consuming(4, rig.work_until_released) as consumer:
        await rig.send(1)
        await until(lambda: rig.received)
        rig.watched.trouble = [error] * 100
        consumer._returned_at -= 1000
        polls = rig.watched.polls
        # The poll after the next: by then the next has come back.
        await until(lambda: rig.watched.polls >= polls + 2)

        assert consumer.deaf_for() < 500
        rig.watched.trouble.clear()


async def test_a_consumer_that_has_never_received_grows_deaf(rig: Rig) -> None:
    """As one that was deployed with the wrong rights, or for a queue that is not there."""
    rig.watched.trouble = [QueueUnavailableError("not allowed")] * 100

    async with rig.consuming(4, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls)
        consumer._returned_at -= 1000
        polls = rig.watched.polls
        # The poll after the next: by then the next has come back.
        await until(lambda: rig.watched.polls >= polls + 2)

        assert consumer.deaf_for() > 500
        rig.watched.trouble.clear()


@pytest.mark.parametrize("slots", [4, 64])
async def test_a_consumer_whose_poll_hangs_grows_deaf(rig: Rig, slots: int) -> None:
    rig.watched.open.clear()
    async with rig.consuming(slots, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls)

        assert await until(consumer.deaf_for, within=5.0) > 0
        rig.watched.open.set()


async def test_the_time_in_which_all_slots_were_at_work_is_not_deafness(rig: Rig) -> None:
    await rig.send(1)
    async with rig.consuming(1, rig.work_until_released) as consumer:
        await until(lambda: rig.received)
        consumer._returned_at -= 1000
        rig.watched.open.clear()
        polls = rig.watched.polls

        rig.release.set()

        await until(lambda: rig.watched.polls > polls)
        assert consumer.deaf_for() < 500
        rig.watched.open.set()
