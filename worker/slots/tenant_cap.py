"""The door of a worker's slots (G20): one tenant's flood leaves some of them to the others.

A session that comes when its tenant has its share is put off in the table, and its message ends (where somebody sits on its row,
the message stays). So the worker reaches the messages behind it. When a slot is free for it, the session that has waited longest
is sent for at once.
"""

import asyncio
import enum
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import structlog

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.statements.defer import Owed, PutOff, put_off
from turnstile.statements.locked_rows import stays_held
from turnstile.statements.waiting_tenants import find_waiting_tenant
from turnstile.turn.message import WakeUp
from turnstile.worker.database_retry import Outlast
from turnstile.worker.slots.tenant_slots import MOST_PUT_OFF_SECONDS, TenantSlots

BATCH = 50

JITTER = 0.5
"""By so much of itself the time of a put-off is longer or shorter."""
LONGEST_PUT_OFF_SECONDS = (1 + JITTER) * MOST_PUT_OFF_SECONDS

LOOK_SECONDS = 1.0
"""Between two looks after tenants that wait behind the backlog of one."""

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
    """The door of one worker's slots, for one queue."""

    def __init__(
        self,
        slots: TenantSlots,
        queue: str,
        database: Database,
        nudge_relay: Callable[[], None],
        outlast: Outlast,
    ) -> None:
        self._slots = slots
        self._queue = queue
        self._database = database
        self._nudge_relay = nudge_relay
        self._outlast = outlast
        self._looks_at = 0.0
        """Not before this time."""
        self._put_off: Batcher[PutOff, Owed] = Batcher(partial(put_off, database), limit=BATCH)
        self._waking: set[asyncio.Task[None]] = set()

    async def enter(self, wake_up: WakeUp) -> Entry:
        """Takes a slot for the session, or puts it off.

        Raises DatabaseUnavailableError once the worker has given up.
        """
        tenant_id, session_id = wake_up.tenant_id, wake_up.session_id
        self._slots.see(tenant_id, time.monotonic())
        if self._slots.must_look(tenant_id, time.monotonic()):
            await self._look_for_others(tenant_id)
        held = False
        if self.is_full(tenant_id):
            seconds = self._slots.put_off_seconds(tenant_id, time.monotonic())
            seconds *= random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - not a secret
            ask = partial(self._put_off, PutOff(tenant_id, session_id, seconds))
            held = await stays_held(partial(self._is_held, ask))
            log.info("session.put_off", seconds=round(seconds, 3), held=held)
        # A slot may have become free meanwhile. Looked at last: who waits from here on is seen by whoever leaves.
        if self._slots.enter(tenant_id, session_id, time.monotonic()):
            return Entry.LET_IN
        return Entry.HELD if held else Entry.PUT_OFF

    def is_full(self, tenant_id: str) -> bool:
        """Whether the tenant's next session would be put off."""
        return not self._slots.has_room(tenant_id, time.monotonic())

    def full_tenants(self) -> list[str]:
        """The tenants whose next session would be put off."""
        return self._slots.full_tenants(time.monotonic())

    def leave(self, tenant_id: str, left_behind: "asyncio.Future[Any] | None") -> None:
        """Gives the slot back; with a handler that ignored its cancellation, when that ends."""
        if left_behind is not None and not left_behind.done():
            left_behind.add_done_callback(lambda _: self.leave(tenant_id, None))
            return
        self._slots.leave(tenant_id)
        if (waiting := self._slots.next_waiting(tenant_id, time.monotonic())) is not None:
            task = asyncio.create_task(self._wake(*waiting))
            self._waking.add(task)
            task.add_done_callback(self._waking.discard)

    async def _look_for_others(self, tenant_id: str) -> None:
        now = time.monotonic()
        if now < self._looks_at:
            return
        self._looks_at = now + LOOK_SECONDS
        try:
            other = await find_waiting_tenant(self._database, self._queue, tenant_id)
        except (DatabaseUnavailableError, psycopg.Error) as error:
            # A turn is worth more than who comes after it.
            log.info("tenants.not_looked_for", error=str(error))
            return
        if other is not None:
            self._slots.see(other, time.monotonic())

    async def _is_held(self, ask: Callable[[], "asyncio.Future[Owed]"]) -> bool:
        return await self._outlast(ask) is Owed.HELD

    async def _wake(self, tenant_id: str, session_id: str) -> None:
        waiting: tuple[str, str] | None = (tenant_id, session_id)
        try:
            # One look at each: who has a row for a moment only is about to send for it, or to answer it. Where somebody sits on
            # it, it has its wake-up still; where nothing is due any more, another worker has answered it. The slot is not to
            # stand empty for either.
            while waiting is not None and await self._put_off(PutOff(*waiting, 0.0)) is not Owed.YES:
                waiting = self._slots.next_waiting(tenant_id, time.monotonic())
        except DatabaseUnavailableError as error:
            # It is owed a wake-up anyway, a little later.
            log.info("session.not_woken", session_id=session_id, error=str(error))
        else:
            self._nudge_relay()
