"""The cap of a tenant (G20): no more than so many of a worker's slots, so that one tenant's flood leaves some to the others.

A session that comes when its tenant has them all is put off in the table, and its message ends (where somebody sits on its row,
the message stays); SQS's fair queues decide who comes in its place. When the tenant's next slot is free, the session that has
waited longest is sent for at once.
"""

import asyncio
import enum
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import structlog

from turns.batching import Batcher
from turns.database import Database
from turns.errors import DatabaseUnavailableError
from turns.held_rows import stays_held
from turns.message import WakeUp
from turns.put_off import PutOff, put_off
from worker.outage import Outlast
from worker.tenant_slots import TenantSlots

BATCH = 50
PUT_OFF_SECONDS = 5.0
"""After so long it is tried again, half as much more or less: other workers may have room for the tenant by then."""

log = structlog.get_logger("turnstile.tenants")


class Entry(enum.Enum):
    """What became of a session at the door."""

    LET_IN = enum.auto()
    """It has a slot of its tenant's."""
    PUT_OFF = enum.auto()
    """It is owed a wake-up: nothing is left to be done about the one that brought it."""
    HELD = enum.auto()
    """It could not be put off, for somebody sits on its row: the wake-up that brought it must not end."""


class TenantCap:
    """The door of one worker's slots."""

    def __init__(self, most: int | None, database: Database, nudge_relay: Callable[[], None], outlast: Outlast) -> None:
        self._slots = TenantSlots(most)
        self._nudge_relay = nudge_relay
        self._outlast = outlast
        self._put_off: Batcher[PutOff, bool] = Batcher(partial(put_off, database), limit=BATCH)
        self._waking: set[asyncio.Task[None]] = set()

    async def enter(self, wake_up: WakeUp) -> Entry:
        """Takes a slot for the session, or puts it off.

        Raises DatabaseUnavailableError once the worker has given up.
        """
        tenant_id, session_id = wake_up.tenant_id, wake_up.session_id
        held = False
        if not self._slots.has_room(tenant_id):
            seconds = PUT_OFF_SECONDS * random.uniform(0.5, 1.5)  # noqa: S311 - not a secret
            ask = partial(self._put_off, PutOff(tenant_id, session_id, seconds))
            held = await stays_held(lambda: self._outlast(ask))
            log.info("session.put_off", seconds=round(seconds, 3), held=held)
        # A slot may have become free meanwhile. Looked at last: who waits from here on is seen by whoever leaves.
        if self._slots.enter(tenant_id, session_id):
            return Entry.LET_IN
        return Entry.HELD if held else Entry.PUT_OFF

    def is_full(self, tenant_id: str) -> bool:
        """Whether the tenant's next session would be put off."""
        return not self._slots.has_room(tenant_id)

    def leave(self, tenant_id: str, left_behind: "asyncio.Future[Any] | None") -> None:
        """Gives the slot back; with a handler that ignored its cancellation, when that ends."""
        if left_behind is not None and not left_behind.done():
            left_behind.add_done_callback(lambda _: self.leave(tenant_id, None))
        elif (session_id := self._slots.leave(tenant_id)) is not None:
            task = asyncio.create_task(self._wake(tenant_id, session_id))
            self._waking.add(task)
            task.add_done_callback(self._waking.discard)

    async def _wake(self, tenant_id: str, waiting: str) -> None:
        session_id: str | None = waiting
        try:
            # One look at each: who has a row for a moment only is about to send for it, or to answer it. Where somebody sits on
            # it, it has its wake-up still, and the slot is not to stand empty for it.
            while session_id is not None and await self._put_off(PutOff(tenant_id, session_id, 0.0)):
                session_id = self._slots.next_waiting(tenant_id)
        except DatabaseUnavailableError as error:
            # It is owed a wake-up anyway, a little later.
            log.info("session.not_woken", session_id=session_id, error=str(error))
        else:
            self._nudge_relay()
