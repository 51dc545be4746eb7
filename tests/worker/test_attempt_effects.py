"""What an attempt causes outside the status table."""

import asyncio
from typing import Any, cast
from uuid import uuid4

from tests.support.claims import submit_turns
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind
from turnstile.streaming.stream import Append, Appended
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.session_lock import SessionLock


class Noting:
    """A writer that notes the kinds of events."""

    def __init__(self) -> None:
        self.kinds: list[EventKind] = []

    def append(self, asked: Append) -> "asyncio.Future[Appended]":
        self.kinds += [event.saying.kind for event in asked.events]
        answered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answered.set_result(Appended.APPENDED)
        return answered


async def test_the_stream_of_an_answered_turn_ends(settings: Settings, database: Database, lock: SessionLock) -> None:
    await submit_turns(database, settings, "one")
    writer = Noting()
    emitters = Emitters(settings, cast("Any", writer))

    with processing(settings, database, lock, "w", emitters=emitters) as processor:
        await processor.process(message_about(uuid4()))
        await emitters.finish(5.0)

    assert writer.kinds[-1:] == [EventKind.END]
