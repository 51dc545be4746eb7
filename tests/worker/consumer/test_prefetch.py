"""Receiving ahead of the slots, as far as their pace allows."""

from tests.support.probes import until
from tests.worker.consumer.consumers import Rig
from turnstile.worker.slots.slots import Slots


class Paced(Slots):
    """Slots whose pace is what the test says."""

    def __init__(self, count: int, ahead: int) -> None:
        super().__init__(count)
        self.ahead_now = ahead
        self.fading: list[int] = []

    def ahead(self) -> int:
        return self.fading.pop() if self.fading else self.ahead_now


async def test_a_poll_also_asks_for_slots_that_will_soon_be_free(rig: Rig) -> None:
    await rig.send(5)
    async with rig.consuming(Paced(2, ahead=3), rig.work_until_released):
        await until(lambda: len(rig.received) == 5)

    assert rig.watched.most[0] == 5


async def test_a_poll_that_only_prefetches_asks_for_ten(rig: Rig) -> None:
    await rig.send(40)
    async with rig.consuming(Paced(10, ahead=25), rig.work_until_released) as consumer:
        await until(lambda: len(rig.received) == 30)
        assert (consumer.room - consumer._reserved, rig.watched.polls) == (-20, 3)
        assert len(consumer.in_flight) == 30

    assert set(rig.watched.most) == {10}


async def test_a_faster_pace_makes_room(rig: Rig) -> None:
    await rig.send(20)
    slots = Paced(10, ahead=9)
    async with rig.consuming(slots, rig.work_until_released):
        await until(lambda: len(rig.received) == 10)
        slots.take()
        slots.ahead_now = 10
        slots.give_back(0.1)

        await until(lambda: len(rig.received) == 20)


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
        assert consumer.room - consumer._reserved == -10
        rig.release.set()
        await rig.send(1)
        await until(lambda: len(rig.received) == 21)

    assert rig.watched.most[:2] == [10, 10]
