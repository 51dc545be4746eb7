"""Shutdown of the consumer: it stops polling, and gives late messages back."""

from tests.support.probes import until
from tests.worker.consumer.consumers import Rig, Watched
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues


async def test_messages_of_a_late_poll_are_given_back(settings: Settings, rig: Rig) -> None:
    patient = MessageQueues(settings.model_copy(update={"receive_wait_seconds": 20}))
    rig.watched = Watched(patient)
    async with rig.consuming(4, rig.work_until_released, in_good_order=True):
        await until(lambda: rig.watched.polls)
        rig.stopping.set()
        await rig.send(1)
    await patient.close()

    (again,) = await until(lambda: rig.queues.receive(settings.queue, 1))
    assert again.receive_count == 2
    assert rig.received == []
