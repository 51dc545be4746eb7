"""SQS that answers no delete holds up nothing that does not need it: neither the next turn nor the session's lock."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.processing import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler, Turn
from turnstile.statements.submit import submit
from turnstile.worker.session_lock import Guard, SessionLock, name_lock

both_kinds = pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])


class SilentSqs:
    """Takes every delete, and answers none."""

    def __init__(self) -> None:
        self.asked = 0

    async def delete(self, *_: Any) -> None:
        self.asked += 1
        await asyncio.Event().wait()


@pytest.fixture
async def lock(settings: Settings) -> AsyncIterator[SessionLock]:
    """A worker's hand on the locks, which are never free because their time is over."""
    opened = OwnSessionLock(settings.model_copy(update={"lease_seconds": 600.0}))
    yield opened
    await opened.close()


async def submit_turns(settings: Settings, database: Database, *contents: str) -> UUID:
    """Of one session; the id of the first."""
    wanted = [make_submission(settings.queue, "s", content) for content in contents]
    await submit(database, wanted, net_seconds=600)
    return wanted[0].turn_id


@both_kinds
async def test_the_next_turn_begins_while_the_message_is_being_deleted(
    settings: Settings, database: Database, lock: SessionLock, fifo: bool
) -> None:
    # The settle has claimed it: its lease runs, and nobody would renew it before it begins.
    turn = await submit_turns(settings, database, "one", "two")
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


@both_kinds
async def test_the_session_is_given_back_while_the_message_is_being_deleted(
    settings: Settings, database: Database, lock: SessionLock, fifo: bool
) -> None:
    turn = await submit_turns(settings, database, "one")
    queues = SilentSqs()

    with processing(settings, database, lock, "w", queues=queues, fifo=fifo) as processor:
        working = asyncio.create_task(processor.process(message_about(turn)))
        await until(lambda: queues.asked)

        async def free() -> bool:
            other = name_lock(settings, "t", "s", uuid4().hex)
            return await lock.acquire(other) is Guard.LOCKED

        await until(free)
        # The slot stays taken: what can't be deleted must not make room for more of it.
        assert not working.done()
        working.cancel()
