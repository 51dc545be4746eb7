"""The consumer, on a real queue: it receives only what it has room for, and nothing ends its poll."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest

from tests.conftest import sqs_client
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.consumer import BESIDE, Consumer
from turnstile.worker.slots.slots import Slots

Served = Callable[[ReceivedMessage], Awaitable["asyncio.Future[Any] | None"]]


@pytest.fixture
def database_url() -> str:
    """No database is made: nothing here asks one."""
    return "postgresql://127.0.0.1:1/none"


class Watched:
    """The real queues; says when a poll begins, and fails when asked to."""

    def __init__(self, queues: MessageQueues) -> None:
        self._queues = queues
        self.polls = 0
        self.most: list[int] = []
        self.waits: list[bool] = []
        self.trouble: list[Exception] = []
        self.open = asyncio.Event()
        self.open.set()

    async def receive(self, queue: str, most: int, *, wait: bool = True) -> list[ReceivedMessage]:
        self.polls += 1
        self.most.append(most)
        self.waits.append(wait)
        await self.open.wait()
        if self.trouble:
            raise self.trouble.pop()
        return await self._queues.receive(queue, most, wait=wait)

    async def give_back(self, queue: str, messages: list[ReceivedMessage]) -> None:
        await self._queues.give_back(queue, messages)


class Rig:
    """A consumer whose processing the test decides."""

    def __init__(self, settings: Settings, queues: MessageQueues) -> None:
        self.settings = settings
        self.queues = queues
        self.watched = Watched(queues)
        self.stopping = asyncio.Event()
        self.received: list[ReceivedMessage] = []
        self.release = asyncio.Event()

    async def send(self, many: int) -> None:
        wake_ups = [OutgoingMessage(WakeUp("t", f"s-{number}", uuid4()), "") for number in range(many)]
        await self.queues.send(self.settings.queue, wake_ups)

    async def work_until_released(self, message: ReceivedMessage) -> None:
        self.received.append(message)
        await self.release.wait()

    @asynccontextmanager
    async def consuming(self, slots: int | Slots, process: Served) -> AsyncIterator[Consumer]:
        """Polls while the block runs, and ends in good order."""
        made = Slots(slots) if isinstance(slots, int) else slots
        consumer = Consumer(self.watched, self.settings.queue, made, process, self.stopping)  # type: ignore[arg-type]
        polling = asyncio.create_task(consumer.run())
        try:
            yield consumer
        finally:
            self.release.set()
            self.stopping.set()
            await asyncio.wait_for(polling, 30)
            await asyncio.wait_for(consumer.finished(), 30)


@pytest.fixture
def rig(settings: Settings, queues: MessageQueues) -> Rig:
    return Rig(settings, queues)


def visible(stack: Stack, url: str) -> int:
    name = "ApproximateNumberOfMessages"
    return int(sqs_client(stack).get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])


# --- free slots


async def test_only_free_slots_are_received_for(rig: Rig, stack: Stack) -> None:
    await rig.send(5)
    url = (await rig.queues.find(rig.settings.queue)).url

    async with rig.consuming(2, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 2)

        assert (consumer.busy, consumer._room_left) == (2, 0)
        assert visible(stack, url) == 3
        rig.release.set()
        await until(lambda: len(rig.received) == 5)

    assert max(rig.watched.most) == 2


async def test_a_slot_that_is_free_again_is_received_for_at_once(rig: Rig) -> None:
    gates: list[asyncio.Event] = []

    async def work(message: ReceivedMessage) -> None:
        rig.received.append(message)
        gates.append(asyncio.Event())
        await gates[-1].wait()

    await rig.send(3)
    async with rig.consuming(2, work):
        await until(lambda: len(rig.received) == 2)
        gates[0].set()
        await until(lambda: len(rig.received) == 3)
        for gate in gates:
            gate.set()

    assert rig.watched.most[-1] >= 1


async def test_a_poll_asks_for_ten_at_most(rig: Rig) -> None:
    async with rig.consuming(64, rig.work_until_released):
        await until(lambda: rig.watched.polls)

    assert set(rig.watched.most) == {10}


async def test_a_handler_that_was_left_behind_keeps_its_slot_until_it_ends(rig: Rig) -> None:
    runaway: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work(message: ReceivedMessage) -> "asyncio.Future[None] | None":
        rig.received.append(message)
        return runaway if len(rig.received) == 1 else None

    await rig.send(2)
    async with rig.consuming(1, work) as consumer:
        await until(lambda: len(rig.received) == 1 and consumer.busy == 0)
        assert consumer._room_left == 0

        runaway.set_result(None)

        await until(lambda: len(rig.received) == 2)


# --- ahead of the slots


class Paced(Slots):
    """Slots whose pace is what the test says."""

    def __init__(self, count: int, ahead: int) -> None:
        super().__init__(count)
        self.told_ahead = ahead
        self.fading: list[int] = []

    def ahead(self) -> int:
        return self.fading.pop() if self.fading else self.told_ahead


async def test_a_poll_for_a_free_slot_is_for_what_will_soon_be_free_as_well(rig: Rig) -> None:
    await rig.send(5)
    async with rig.consuming(Paced(2, ahead=3), rig.work_until_released):
        await until(lambda: len(rig.received) == 5)

    assert rig.watched.most[0] == 5


async def test_beyond_its_slots_it_polls_for_whole_batches_only(rig: Rig) -> None:
    await rig.send(40)
    async with rig.consuming(Paced(10, ahead=25), rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 30)
        assert (consumer._room_left, rig.watched.polls) == (-20, 3)
        assert (consumer.busy, consumer.busy_slots) == (30, 10)

    assert set(rig.watched.most) == {10}


async def test_an_end_that_quickens_the_pace_makes_room(rig: Rig) -> None:
    await rig.send(20)
    slots = Paced(10, ahead=9)
    async with rig.consuming(slots, rig.work_until_released):
        await until(lambda: len(rig.received) == 10)
        slots.take()
        slots.told_ahead = 10
        slots.give_back(0.1)

        await until(lambda: len(rig.received) == 20)


async def test_nothing_is_received_ahead_of_handlers_that_take_their_time(rig: Rig) -> None:
    await rig.send(3)
    slots = Slots(2)
    async with rig.consuming(slots, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 2)
        slots.take()
        slots.give_back(0.1)

        assert (consumer._room_left, consumer._find_room()) == (0, 0)


async def test_room_that_is_gone_a_moment_later_ends_no_poll(rig: Rig) -> None:
    await rig.send(20)
    slots = Paced(10, ahead=0)
    async with rig.consuming(slots, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 10)
        # The process may stand still between any two looks at the clock.
        slots.fading = [10, 10]
        slots.take()
        slots.give_back(0.1)
        await until(lambda: len(rig.received) == 20)
        assert consumer._room_left == -10
        rig.release.set()
        await rig.send(1)
        await until(lambda: len(rig.received) == 21)

    assert rig.watched.most[:2] == [10, 10]


# --- beside the long poll


async def test_while_polls_bring_ten_each_others_go_beside_them_and_wait_for_nothing(rig: Rig) -> None:
    await rig.send(40)
    async with rig.consuming(64, rig.work_until_released):
        await until(lambda: len(rig.received) == 40)

    assert rig.watched.waits[:2] == [True, True]
    assert rig.watched.waits.count(False) >= BESIDE
    assert {most for most, wait in zip(rig.watched.most, rig.watched.waits, strict=True) if not wait} == {10}


async def test_one_that_brings_less_is_the_last_for_a_while(rig: Rig) -> None:
    await rig.send(10)
    async with rig.consuming(64, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 10)
        await until(lambda: consumer._beside == 0 and False in rig.watched.waits)
        asked = rig.watched.waits.count(False)
        await rig.send(10)
        await until(lambda: len(rig.received) == 20)
        await until(lambda: rig.watched.waits[-1])

        assert rig.watched.waits.count(False) == asked


async def test_a_worker_of_few_slots_polls_one_by_one(rig: Rig) -> None:
    await rig.send(9)
    async with rig.consuming(9, rig.work_until_released):
        await until(lambda: len(rig.received) == 9)

    assert False not in rig.watched.waits


async def test_one_that_waits_for_room_takes_it_when_there_is_enough_for_ten(rig: Rig) -> None:
    await rig.send(40)
    async with rig.consuming(20, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 20 and len(consumer._waiting) == 1 + BESIDE)
        asked = rig.watched.waits.count(False)
        rig.release.set()
        await until(lambda: len(rig.received) == 40)

    assert rig.watched.waits.count(False) > asked


class Scripted:
    """Queues whose polls bring what the test says, when it says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool, asyncio.Future[int]]] = []

    async def receive(self, queue: str, most: int, *, wait: bool) -> list[ReceivedMessage]:
        brings: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.asked.append((most, wait, brings))
        return [ReceivedMessage(f"m-{n}", "", "handle", 1, {}, False) for n in range(await brings)]

    async def give_back(self, queue: str, messages: list[ReceivedMessage]) -> None:
        """They are nobody's."""


async def test_room_that_one_gives_back_goes_to_the_long_poll_that_waits_for_it(rig: Rig) -> None:
    """Without any handler's end, which may be minutes away."""
    scripted, gate = Scripted(), asyncio.Event()

    async def work(_: ReceivedMessage) -> None:
        await (rig.release if gate.is_set() else gate).wait()

    rig.watched = scripted  # type: ignore[assignment]
    async with rig.consuming(20, work) as consumer:
        await until(lambda: len(scripted.asked) == 1)
        scripted.asked[0][2].set_result(10)
        await until(lambda: len(scripted.asked) == 2 and consumer.busy == 10)
        gate.set()
        await until(lambda: len(scripted.asked) == 3)
        assert [(most, wait) for most, wait, _ in scripted.asked] == [(10, True), (10, True), (10, False)]
        scripted.asked[1][2].set_result(10)
        await until(lambda: consumer.busy == 10)
        assert consumer._room_left == 0

        scripted.asked[2][2].set_result(3)

        await until(lambda: len(scripted.asked) == 4)
        most, wait, brings = scripted.asked[3]
        assert (most, wait) == (7, True)
        rig.stopping.set()
        brings.set_result(0)


async def test_a_stop_is_heeded_by_those_that_wait_for_room(rig: Rig) -> None:
    await rig.send(20)
    async with rig.consuming(20, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 20 and len(consumer._waiting) == 1 + BESIDE)

    assert consumer._room_left == 20


# --- nothing ends the poll


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a bug of ours"),
        DatabaseUnavailableError("away"),
        QueueUnavailableError("away"),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_message_that_cannot_be_processed_costs_neither_the_poll_nor_its_slot(
    rig: Rig, error: BaseException
) -> None:
    async def work(message: ReceivedMessage) -> None:
        rig.received.append(message)
        if len(rig.received) <= 2:
            raise error

    await rig.send(3)
    async with rig.consuming(1, work) as consumer:
        await until(lambda: len(rig.received) == 3, within=10.0)
        await until(lambda: consumer.busy == 0)


@pytest.mark.parametrize(
    "error", [QueueUnavailableError("away"), UnknownQueueError("turns")], ids=lambda error: type(error).__name__
)
async def test_a_receive_that_fails_is_tried_again(rig: Rig, error: Exception) -> None:
    rig.watched.trouble = [error, error]
    await rig.send(1)

    async with rig.consuming(4, rig.work_until_released):
        await until(lambda: rig.received)

    assert rig.watched.most[:3] == [4, 4, 4]


# --- whether it hears


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
        await until(lambda: consumer.busy == 1 and consumer._room_left == 0)
        assert not consumer.full

        await rig.send(1)
        await until(lambda: consumer.busy == 2)
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
        await until(lambda: rig.received and consumer.busy == 0)

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


# --- stopping


async def test_what_a_late_poll_brings_is_given_back(settings: Settings, rig: Rig) -> None:
    patient = MessageQueues(settings.model_copy(update={"receive_wait_seconds": 20}))
    rig.watched = Watched(patient)
    async with rig.consuming(4, rig.work_until_released):
        await until(lambda: rig.watched.polls)
        rig.stopping.set()
        await rig.send(1)
    await patient.close()

    (again,) = await until(lambda: rig.queues.receive(settings.queue, 1))
    assert again.receive_count == 2
    assert rig.received == []


async def test_a_stop_begins_no_other_poll(rig: Rig) -> None:
    async with rig.consuming(4, rig.work_until_released):
        await until(lambda: rig.watched.polls)
        rig.stopping.set()
        polls = rig.watched.polls

    assert rig.watched.polls == polls


async def test_a_stop_is_heeded_while_all_slots_are_busy(rig: Rig) -> None:
    await rig.send(1)
    consumer = Consumer(rig.queues, rig.settings.queue, Slots(1), rig.work_until_released, rig.stopping)  # type: ignore[arg-type]
    polling = asyncio.create_task(consumer.run())
    await until(lambda: rig.received)

    rig.stopping.set()

    await asyncio.wait_for(polling, 30)
    assert consumer.busy == 1
    rig.release.set()
    await asyncio.wait_for(consumer.finished(), 30)
    assert consumer.busy == 0


async def test_what_is_abandoned_is_cancelled(rig: Rig) -> None:
    await rig.send(1)
    async with rig.consuming(1, rig.work_until_released) as consumer:
        await until(lambda: rig.received)

        consumer.abandon()

        await asyncio.wait_for(consumer.finished(), 30)
        assert not rig.release.is_set()
