"""Shutdown of the consumer: it polls no more, and gives late messages back."""

import asyncio

from tests.support.probes import until
from tests.worker.consumer.consumers import Rig, Watched
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.worker.consumer import Consumer
from turnstile.worker.slots.slots import Slots
from turnstile.worker.turns_in_flight import TurnsInFlight


async def test_messages_of_a_late_poll_are_given_back(settings: Settings, rig: Rig) -> None:
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


async def test_no_poll_begins_after_a_stop(rig: Rig) -> None:
    async with rig.consuming(4, rig.work_until_released):
        await until(lambda: rig.watched.polls)
        rig.stopping.set()
        polls = rig.watched.polls

    assert rig.watched.polls == polls


async def test_a_stop_ends_the_polls_while_all_slots_are_busy(rig: Rig) -> None:
    await rig.send(1)
    consumer = Consumer(
        rig.queues, rig.settings.queue, Slots(1), TurnsInFlight(), rig.work_until_released, rig.stopping
    )  # type: ignore[arg-type]
    polling = asyncio.create_task(consumer.run())
    await until(lambda: rig.received)

    rig.stopping.set()

    await asyncio.wait_for(polling, 30)
    assert len(consumer.in_flight) == 1
    rig.release.set()
    await asyncio.wait_for(consumer.in_flight.finished(), 30)
    assert len(consumer.in_flight) == 0
