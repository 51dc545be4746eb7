"""While SQS does not respond to a deletion, neither the next turn nor the session's lock waits."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from tests.support.claims import submit_turns
from tests.support.probes import until
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import Guard, SessionLock, name_lock

both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


class SilentSqs:
    """Receives every deletion, and responds to none."""

    def __init__(self) -> None:
        self.asked = 0

    async def delete(self, *_: Any) -> None:
        self.asked += 1
        await asyncio.Event().wait()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Locks that do not run out during a test."""
    return settings.model_copy(update={"lease_seconds": 600.0})


@both_kinds
async def test_the_next_turn_begins_while_the_message_is_being_deleted(
    settings: Settings, database: Database, lock: SessionLock, fifo: bool
) -> None:
    # The settle has claimed it: its lease runs, and is not renewed before the handler begins.
    turn, _ = await submit_turns(database, settings, "one", "two")
    answered: list[Any] = []
    queues = SilentSqs()

    def answer(turn: Turn, _: Any) -> Any:
        answered.append(turn.input)
        return turn.input

    with processing(settings, database, lock, "w", Handler(answer), queues=queues, fifo=fifo) as processor:
        working = asyncio.create_task(processor.process(message_about(turn)))
        await until(lambda: answered == ["one", "two"])
        assert queues.asked == 1
        working.cancel()


async def test_the_lock_is_released_while_the_message_is_being_deleted(
    settings: Settings, database: Database, lock: SessionLock
) -> None:
    [turn] = await submit_turns(database, settings, "one")
    queues = SilentSqs()

    with processing(settings, database, lock, "w", queues=queues) as processor:
        working = asyncio.create_task(processor.process(message_about(turn)))
        await until(lambda: queues.asked)

        async def free() -> bool:
            other = name_lock(settings, "t", "s", uuid4().hex)
            return await lock.acquire(other) is Guard.LOCKED

        await until(free)
        # The slot stays taken: otherwise deletions would pile up.
        assert not working.done()
        working.cancel()


@both_kinds
async def test_the_heartbeat_does_not_extend_a_message_that_is_being_deleted(
    settings: Settings, database: Database, lock: SessionLock, fifo: bool
) -> None:
    await submit_turns(database, settings, "one", "two")
    kept: list[HeartbeatEntry] = []
    extended: list[bool] = []

    def note(*_: Any) -> None:
        extended.append(kept[0].message is not None)

    with processing(settings, database, lock, "w", Handler(note), taken=kept, fifo=fifo) as processor:
        await processor.process(message_about(uuid4()))

    # On a FIFO queue a message is deleted when its turn is claimed, otherwise when it is settled.
    assert extended == [not fifo, False]
