"""A paused queue: the consumer receives nothing, gives back what a poll under way brings, and does not look deaf."""

from tests.support.probes import until
from tests.worker.consumer.consumers import Rig


async def test_a_paused_consumer_begins_no_poll_and_is_not_deaf(rig: Rig) -> None:
    async with rig.consuming(1, rig.work_until_released, paused=True) as consumer:
        # A call to SQS: a consumer that does not heed the pause has begun its poll by then.
        await rig.send(1)

        assert rig.watched.polls == 0
        assert consumer.deaf_for() == 0.0


async def test_a_resumed_consumer_receives_at_once(rig: Rig) -> None:
    async with rig.consuming(1, rig.work_until_released, paused=True) as consumer:
        # Meanwhile the poll has begun to wait for the end of the pause.
        await rig.send(1)
        consumer._returned_at -= 3600
        consumer.pause.set(False)

        assert consumer.deaf_for() < 60, "the time of the pause does not count"
        await until(lambda: rig.received)


async def test_what_a_poll_brings_during_a_pause_is_given_back(rig: Rig) -> None:
    rig.watched.open.clear()

    async with rig.consuming(1, rig.work_until_released) as consumer:
        await until(lambda: rig.watched.polls == 1)
        await rig.send(1)
        consumer.pause.set(True)
        rig.watched.open.set()

        await until(lambda: rig.watched.given_back)
        assert rig.received == []
