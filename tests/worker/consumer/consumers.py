"""A consumer on a real queue, whose processing the test decides."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.consumer import Consumer
from turnstile.worker.slots.slots import Slots
from turnstile.worker.turns_in_flight import TurnsInFlight

Served = Callable[[ReceivedMessage], Awaitable["asyncio.Future[Any] | None"]]


class Watched:
    """The real queues; says when a poll begins, and fails when asked to."""

    def __init__(self, queues: MessageQueues) -> None:
        self._queues = queues
        self.polls = 0
        self.most: list[int] = []
        self.waits: list[bool] = []
        self.trouble: list[Exception] = []
        self.given_back: list[tuple[ReceivedMessage, float]] = []
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

    async def give_back(self, queue: str, messages: list[ReceivedMessage], *, after_seconds: float) -> None:
        self.given_back += [(message, after_seconds) for message in messages]
        await self._queues.give_back(queue, messages, after_seconds=after_seconds)


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
    async def consuming(
        self, slots: int | Slots, process: Served, *, in_good_order: bool = False, paused: bool = False
    ) -> AsyncIterator[Consumer]:
        """Polls while the block runs. In good order: at the end the poll under way is waited for, up to a second."""
        made = Slots(slots) if isinstance(slots, int) else slots
        in_flight = TurnsInFlight()
        consumer = Consumer(self.watched, self.settings.queue, made, in_flight, process, self.stopping)  # type: ignore[arg-type]
        consumer.pause.set(paused)
        polling = asyncio.create_task(consumer.run())
        try:
            yield consumer
        finally:
            self.release.set()
            self.stopping.set()
            if not in_good_order:
                polling.cancel()
            await asyncio.wait({polling}, timeout=30)
            assert polling.cancelled() or (polling.done() and polling.exception() is None)
            await asyncio.wait_for(in_flight.finished(), 30)
