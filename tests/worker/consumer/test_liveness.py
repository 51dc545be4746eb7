"""Liveness of the consumer: when it counts as deaf, and when as full."""

import asyncio

import pytest

from tests.support.probes import until
from tests.worker.consumer.consumers import Rig
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.queue_pause import QueuePause


async def test_a_consumer_that_receives_is_not_deaf(rig: Rig) -> None:
    async with rig.consuming(4, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls)
        consumer._returned_at -= 1000
        await rig.send(1)
        await until(lambda: rig.received)

        assert consumer.deaf_for() < 500


async def test_a_consumer_is_full_while_all_slots_are_busy(rig: Rig) -> None:
    await rig.send(1)
    async with rig.consuming(2, rig.work_until_released) as consumer:
        await until(lambda: len(consumer.in_flight) == 1 and consumer.room - consumer._reserved == 0)
        assert not consumer.full

        await rig.send(1)
        await until(lambda: len(consumer.in_flight) == 2)
        assert consumer.full


async def test_a_full_consumer_is_not_deaf(rig: Rig) -> None:
    await rig.send(1)
    async with rig.consuming(1, rig.work_until_released) as consumer:
        await until(lambda: rig.received)

        assert consumer.deaf_for() == 0


async def test_a_consumer_whose_slots_all_have_handlers_left_behind_is_deaf(rig: Rig) -> None:
    runaway: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(message: ReceivedMessage) -> "asyncio.Future[None]":
        rig.received.append(message)
        return runaway

    await rig.send(1)
    async with rig.consuming(1, work) as consumer:
        await until(lambda: rig.received and len(consumer.in_flight) == 0)

        assert await until(consumer.deaf_for) > 0
        runaway.set_result(None)


async def test_a_consumer_whose_receives_begin_to_fail_is_not_deaf(rig: Rig) -> None:
    async with rig.consuming(4, rig.work_until_released) as consumer:
        await rig.send(1)
        await until(lambda: rig.received)
        rig.watched.trouble = [UnknownQueueError("turns")] * 100
        consumer._returned_at -= 1000
        polls = rig.watched.polls
        # The poll after the next: by then the next has come back.
        await until(lambda: rig.watched.polls >= polls + 2)

        assert consumer.deaf_for() < 500
        rig.watched.trouble.clear()


async def test_a_consumer_that_has_never_received_becomes_deaf(rig: Rig) -> None:
    """Like one that was deployed without permissions, or for a missing queue."""
    rig.watched.trouble = [QueueUnavailableError("not allowed")] * 100

    async with rig.consuming(4, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls)
        consumer._returned_at -= 1000
        polls = rig.watched.polls
        # The poll after the next: by then the next has come back.
        await until(lambda: rig.watched.polls >= polls + 2)

        assert consumer.deaf_for() > 500
        rig.watched.trouble.clear()


async def test_a_consumer_whose_poll_hangs_becomes_deaf(rig: Rig) -> None:
    rig.watched.open.clear()
    async with rig.consuming(64, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls)

        assert await until(consumer.deaf_for, within=5.0) > 0
        rig.watched.open.set()


async def test_the_time_with_all_slots_busy_does_not_count_as_deaf(rig: Rig) -> None:
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


@pytest.mark.parametrize(("is_read", "is_deaf"), [(False, True), (True, False)], ids=["not read", "paused"])
async def test_only_a_pause_that_was_read_keeps_a_consumer_from_being_deaf(
    rig: Rig, is_read: bool, is_deaf: bool
) -> None:
    """A worker that can't read the table begins no turn, and somebody must hear of it."""
    async with rig.consuming(4, rig.work_until_released, paused=True) as consumer:
        if not is_read:
            consumer.pause = QueuePause(begins_paused=True)
        consumer._returned_at -= 1000

        assert (consumer.deaf_for() > 500) is is_deaf
