"""Overtaking: while messages wait in the queue, a turn with a head start runs before its own message comes."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processors import Noting, message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.statements.submit import submit
from turnstile.worker.consumer import Consumer
from turnstile.worker.overtaking import Overtaking
from turnstile.worker.processor import Processor
from turnstile.worker.slots.slots import Slots
from turnstile.worker.takeover import Takeover
from turnstile.worker.turns_in_flight import TurnsInFlight

SLOTS = 4
WAIT_SECONDS = 300.0


class Silence(Noting):
    """A queue whose messages do not come."""

    async def receive(self, *_: Any, **__: Any) -> list[Any]:
        await asyncio.Event().wait()
        return []


class Line:
    """A worker whose messages do not come, and the sessions whose turns it has run."""

    processor: Processor

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self.ran: list[str] = []
        self.looks = 0

    async def handle(self, turn: Turn, _: Any) -> str:
        self.ran.append(turn.session_id)
        return "done"

    async def submit(self, session_id: str, priority_seconds: float = 0.0) -> UUID:
        wanted = make_submission(self._settings.queue, session_id, priority_seconds=priority_seconds)
        await submit(self._database, [wanted], resend_seconds=600.0)
        return wanted.turn_id

    def wait(self) -> None:
        """The turns that come from the queue have waited for WAIT_SECONDS."""
        for _ in range(100):
            self.processor.runner.queue_latency.note(WAIT_SECONDS, time.monotonic())

    async def looked(self) -> None:
        since = self.looks
        await until(lambda: self.looks >= since + 3)


@pytest.fixture
async def line(settings: Settings, database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    lock = OwnSessionLock(settings)
    line = Line(settings, database)
    quick = settings.model_copy(update={"relay_tick_seconds": 0.05, "concurrency": SLOTS})
    stopping, slots, queues = asyncio.Event(), Slots(SLOTS), Silence()
    look = Overtaking.look

    async def counted(overtaking: Overtaking, most: int, wanted: int, now: float) -> int:
        left = await look(overtaking, most, wanted, now)
        line.looks += 1
        return left

    monkeypatch.setattr(Overtaking, "look", counted)
    handler = Handler(line.handle)
    with processing(quick, database, lock, "w", handler, slots=slots, queues=queues) as line.processor:
        receiving: Any = queues
        consumer = Consumer(receiving, quick.queue, slots, TurnsInFlight(), line.processor.process, stopping)
        looking = asyncio.create_task(Takeover(quick, database, consumer, line.processor).run(stopping))
        yield line
        stopping.set()
        await looking
        await consumer.in_flight.finished()
    await lock.close()


async def test_a_head_start_longer_than_the_wait_in_the_queue_runs_first(line: Line) -> None:
    await line.submit("usual")
    await line.submit("short", priority_seconds=WAIT_SECONDS / 2)
    ahead = await line.submit("ahead", priority_seconds=2 * WAIT_SECONDS)
    line.wait()

    await until(lambda: line.ran == ["ahead"])
    await line.looked()
    await line.processor.process(message_about(ahead, "ahead"))

    assert line.ran == ["ahead"]


async def test_without_a_wait_in_the_queue_nothing_overtakes(line: Line) -> None:
    await line.submit("ahead", priority_seconds=3600)

    await line.looked()

    assert line.ran == []


async def test_a_turn_that_overtakes_says_nothing_about_the_wait_in_the_queue(line: Line) -> None:
    line.wait()
    before = line.processor.runner.queue_latency.seconds(time.monotonic())

    await line.submit("ahead", priority_seconds=3600)
    await until(lambda: line.ran == ["ahead"])

    assert line.processor.runner.queue_latency.seconds(time.monotonic()) == before
