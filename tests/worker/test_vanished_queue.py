"""A queue or a DLQ is deleted under a worker: answered turns stay answered, and the worker goes on."""

import asyncio
from typing import Any, cast
from uuid import uuid4

from structlog.testing import capture_logs

from tests.conftest import sqs_client
from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processors import message_about, processing
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import UnknownQueueError
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.handler import Handler
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import submit
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.consumer import Consumer
from turnstile.worker.received_message import Delivery
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots
from turnstile.worker.turns_in_flight import TurnsInFlight


class Vanished:
    """SQS after the queue was deleted: polls under way still return a message each."""

    def __init__(self) -> None:
        self.polls = 0
        self.arrives = asyncio.Event()

    async def receive(self, *_: Any, **__: Any) -> list[ReceivedMessage]:
        self.polls += 1
        await self.arrives.wait()
        return [message_about(uuid4())]

    async def delete(self, queue: str, *_: Any) -> None:
        raise UnknownQueueError(queue)

    async def give_back(self, queue: str, *_: Any, **__: Any) -> None:
        raise UnknownQueueError(queue)


async def test_a_handler_left_behind_is_returned_although_its_message_can_not_be_deleted(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    # Otherwise its slot and its share would be given away while it still runs.
    ends = asyncio.Event()

    async def deaf(_: Turn, __: Context) -> None:
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue

    wanted = make_submission(settings.queue, timeout_seconds=0.1)
    await submit(database, [wanted], resend_seconds=60.0)

    with processing(settings, database, lock, "w", Handler(deaf), queues=Vanished()) as processor:
        try:
            left_behind = await processor.process(message_about(wanted.turn_id))
            running = left_behind is not None and not left_behind.done()
        finally:
            ends.set()

    assert running


async def test_a_malformed_message_stays_in_its_queue_while_the_dlq_is_missing(
    settings: Settings, queues: MessageQueues, stack: Stack
) -> None:
    [declared] = settings.queues
    client = sqs_client(stack)
    url = (await queues.find(declared.name)).url
    client.send_message(QueueUrl=url, MessageBody="not ours")
    missing = declared.model_copy(update={"dlq": f"{url}-missing"})
    known = settings.model_copy(update={"queues": (missing,), "queues_by_name": {missing.name: missing}})
    sqs = MessageQueues(known)
    delivery = Delivery(known, missing, cast("Any", None), sqs, cast("Any", None))
    stopping = asyncio.Event()
    consumer = Consumer(sqs, declared.name, Slots(1), TurnsInFlight(), cast("Any", delivery.read), stopping)

    with capture_logs() as lines:
        polling = asyncio.create_task(consumer.run())
        await until(lambda: [line for line in lines if line["event"].startswith("consumer.")])
        stopping.set()
        await asyncio.wait_for(polling, 30)
        await asyncio.wait_for(consumer.in_flight.finished(), 30)
    await sqs.close()

    logged = [(line["event"], line["log_level"]) for line in lines if line["event"].startswith("consumer.")]
    assert set(logged) == {("consumer.not_processed", "warning")}
    assert await queues.count(declared.name) == 1


async def test_a_failed_give_back_at_a_stop_ends_no_poll(settings: Settings) -> None:
    queues = Vanished()
    stopping = asyncio.Event()
    process = cast("Any", None)
    consumer = Consumer(cast("Any", queues), settings.queue, Slots(20), TurnsInFlight(), process, stopping, pollers=2)
    polling = asyncio.create_task(consumer.run())
    await until(lambda: queues.polls == 2)

    stopping.set()
    queues.arrives.set()

    await asyncio.wait_for(polling, 30)
