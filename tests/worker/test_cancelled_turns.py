"""A turn whose processing is cancelled, at whichever await, gives back all that is counted: its slot, its tenant's share, its
seat in quarantine, its place among the running sessions, its connections."""

import asyncio
from itertools import count
from uuid import UUID

import pytest

from tests.support.cancelling import Cancel, cancel_at_each_await
from tests.support.claims import submit_turns
from tests.support.processors import message_about, processing
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.lost_turns import LostTurn
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots

CRASHES = 2
"""A turn with so many runs alone in quarantine."""


class Site:
    """A processor of one slot, of which a tenant may have one."""

    def __init__(self, settings: Settings, database: Database, processor: Processor, slots: Slots) -> None:
        self.settings = settings
        self.database = database
        self.processor = processor
        self.slots = slots
        self.sessions = (f"s-{number}" for number in count())

    async def process(self) -> None:
        """A new turn, by its message."""
        session = next(self.sessions)
        [turn_id] = await submit_turns(self.database, self.settings, "hi", session_id=session)
        await self.processor.process(message_about(turn_id, session))

    async def take_over(self) -> None:
        """A new turn, as a takeover begins one that was lost."""
        session = next(self.sessions)
        [turn_id] = await submit_turns(self.database, self.settings, "hi", session_id=session)
        seat = self.processor.claimer.quarantine.enter(CRASHES)
        assert seat is not None
        await self.processor.take_over(LostTurn(turn_id, "t", session, UUID(int=1).hex, CRASHES), seat)

    def assert_whole(self) -> None:
        assert self.slots.busy == 0
        assert not self.processor.cap.is_full("t")
        seat = self.processor.claimer.quarantine.enter(CRASHES)
        assert seat is not None
        seat.leave()


@pytest.mark.parametrize("how", Cancel)
@pytest.mark.parametrize("way", [Site.process, Site.take_over])
async def test_a_turn_that_is_cancelled_at_any_await_gives_everything_back(
    settings: Settings, database: Database, lock: SessionLock, way: object, how: Cancel
) -> None:
    limited = settings.model_copy(update={"tenant_slots": 1})
    slots = Slots(1)
    with processing(limited, database, lock, "w", slots=slots) as processor:
        site = Site(settings, database, processor, slots)
        async for _ in cancel_at_each_await(lambda: way(site), how):
            site.assert_whole()
        async with asyncio.timeout(20):
            await asyncio.gather(*(database.ping() for _ in range(8)))
