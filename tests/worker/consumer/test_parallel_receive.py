"""Extra polls at the same time as the long poll, while polls bring ten messages each."""

import asyncio

from tests.support.probes import until
from tests.worker.consumer.consumers import Rig
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.consumer import BESIDE


async def test_extra_polls_run_while_polls_bring_ten_messages(rig: Rig) -> None:
    await rig.send(40)
    async with rig.consuming(64, rig.work_until_released):
        await until(lambda: len(rig.received) == 40)

    assert rig.watched.waits[:2] == [True, True]
    assert rig.watched.waits.count(False) >= BESIDE
    assert {most for most, wait in zip(rig.watched.most, rig.watched.waits, strict=True) if not wait} == {10}


async def test_no_extra_poll_follows_one_that_brought_fewer(rig: Rig) -> None:
    await rig.send(10)
    async with rig.consuming(64, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 10)
        await until(lambda: consumer._beside == 0 and False in rig.watched.waits)
        asked = rig.watched.waits.count(False)
        await rig.send(10)
        await until(lambda: len(rig.received) == 20)
        await until(lambda: rig.watched.waits[-1])

        assert rig.watched.waits.count(False) == asked


async def test_an_extra_poll_waits_for_room_for_ten(rig: Rig) -> None:
    await rig.send(40)
    async with rig.consuming(20, rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 20 and consumer._beside == BESIDE)
        asked = rig.watched.waits.count(False)
        rig.release.set()
        await until(lambda: len(rig.received) == 40)

    assert rig.watched.waits.count(False) > asked


class Scripted:
    """Queues whose polls return what the test decides, when it decides."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool, asyncio.Future[int]]] = []

    async def receive(self, queue: str, most: int, *, wait: bool) -> list[ReceivedMessage]:
        brings: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.asked.append((most, wait, brings))
        return [ReceivedMessage(f"m-{n}", "", "handle", 1, {}, False) for n in range(await brings)]

    async def give_back(self, queue: str, messages: list[ReceivedMessage], **_: float) -> None:
        """Does nothing."""


async def test_room_that_a_poll_gives_back_wakes_a_waiting_poll(rig: Rig) -> None:
    """It does not wait for a handler's end, which may be minutes away."""
    scripted, gate = Scripted(), asyncio.Event()

    async def work(_: ReceivedMessage) -> None:
        await (rig.release if gate.is_set() else gate).wait()

    rig.watched = scripted  # type: ignore[assignment]
    async with rig.consuming(20, work) as consumer:
        await until(lambda: len(scripted.asked) == 1)
        scripted.asked[0][2].set_result(10)
        await until(lambda: len(scripted.asked) == 2 and len(consumer.in_flight) == 10)
        gate.set()
        await until(lambda: len(scripted.asked) == 3)
        assert [(most, wait) for most, wait, _ in scripted.asked] == [(10, True), (10, True), (10, False)]
        scripted.asked[1][2].set_result(10)
        await until(lambda: len(consumer.in_flight) == 10)
        assert consumer.room - consumer._reserved == 0

        scripted.asked[2][2].set_result(3)

        await until(lambda: len(scripted.asked) == 4)
        most, wait, brings = scripted.asked[3]
        assert (most, wait) == (7, True)
        rig.stopping.set()
        brings.set_result(0)


async def test_a_stop_ends_polls_that_wait_for_room(rig: Rig) -> None:
    await rig.send(20)
    async with rig.consuming(20, rig.work_until_released, in_good_order=True) as consumer:
        await until(lambda: len(rig.received) == 20 and consumer._beside == BESIDE)

    assert consumer.room - consumer._reserved == 20
