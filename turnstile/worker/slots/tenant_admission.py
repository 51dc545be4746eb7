"""The tenant cap of a worker's slots: one tenant's flood leaves some of them to the others.

A session whose tenant already has its share is deferred in the table, and its message is deleted (if its row is locked, the
message stays). So the worker reaches the messages behind it. When a slot is free for the tenant, the session that has waited
longest is woken at once.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg

from turnstile.backends.batcher import Batcher
from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, MessageStaysError
from turnstile.statements.defer import Defer, DeferResult, defer
from turnstile.statements.locked_rows import stays_locked
from turnstile.statements.waiting_tenants import find_waiting_tenant
from turnstile.telemetry.own_log import log
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.database_retry import RetryWhileDown
from turnstile.worker.slots.tenant_fairness import TenantSlots

BATCH = 50

JITTER = 0.5
"""A deferral is longer or shorter by up to this share of itself."""

LOOK_SECONDS = 1.0
"""The shortest time between two looks for tenants that wait behind another tenant's backlog."""


class TenantCap:
    def __init__(
        self,
        slots: TenantSlots,
        queue: str,
        database: Database,
        nudge_relay: Callable[[], None],
        retry_while_down: RetryWhileDown,
        *,
        is_full: Callable[[], bool],
        turn_away: Callable[[], None],
    ) -> None:
        """`is_full`: whether at least as many turns are in work as there are slots. `turn_away`: called when a session was
        deferred."""
        self._slots = slots
        self._queue = queue
        self._database = database
        self._nudge_relay = nudge_relay
        self._retry_while_down = retry_while_down
        self._is_full = is_full
        self._turn_away = turn_away
        self._looks_at = 0.0
        """The earliest time of the next look, in monotonic seconds."""
        self._defer: Batcher[Defer, DeferResult] = Batcher(partial(defer, database), limit=BATCH)
        self._waking: set[asyncio.Task[None]] = set()

    async def enter(self, wake_up: WakeUp) -> bool:
        """Takes one of the tenant's slots for the session, or defers it: then its message may be deleted. True: it has the slot.

        Raises MessageStaysError if another transaction has locked the row of a session that must be deferred, and
        DatabaseUnavailableError after `given_up`.
        """
        tenant_id, session_id = wake_up.tenant_id, wake_up.session_id
        self._slots.see(tenant_id, time.monotonic())
        if self._slots.must_look(tenant_id, time.monotonic()):
            await self._look_for_others(tenant_id)
        locked = False
        if self.is_full(tenant_id):
            seconds = self._slots.defer_seconds(tenant_id)
            seconds *= CHANCE.uniform(1 - JITTER, 1 + JITTER)
            ask = partial(self._defer, Defer(tenant_id, session_id, seconds))
            locked = await stays_locked(partial(self._is_locked, ask))
            log.info("session.deferred", seconds=round(seconds, 3), locked=locked)
        # Last, because a slot may have become free meanwhile. From here on, `leave` finds the waiting session.
        if self._slots.enter(tenant_id, session_id, time.monotonic()):
            return True
        if locked:
            raise MessageStaysError("another transaction has locked the row of a session that is to be deferred")
        self._turn_away()
        return False

    def is_full(self, tenant_id: str) -> bool:
        """Whether the tenant's next session would be deferred."""
        return not self._slots.has_room(tenant_id, time.monotonic())

    def is_wanted(self, tenant_id: str) -> bool:
        """Whether the next wake-up, or the tenant's next one, would find no free slot."""
        return self._is_full() or self.is_full(tenant_id)

    def full_tenants(self) -> list[str]:
        return self._slots.full_tenants(time.monotonic())

    def leave(self, tenant_id: str, left_behind: "asyncio.Future[Any] | None") -> None:
        """Gives the slot back; if its handler ignored its cancellation, when that handler ends."""
        if left_behind is not None and not left_behind.done():
            left_behind.add_done_callback(lambda _: self.leave(tenant_id, None))
            return
        self._slots.leave(tenant_id)
        if (waiting := self._slots.next_waiting(tenant_id, time.monotonic())) is not None:
            # Another session, of other turns: an empty context, without the ids that this session run has bound to its log.
            task = asyncio.create_task(self._wake(*waiting), context=contextvars.Context())
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
            # Only a hint for fairness: the current session goes on without it.
            log.info("tenants.not_looked_for", error=str(error))
            return
        if other is not None:
            self._slots.see(other, time.monotonic())

    async def _is_locked(self, ask: Callable[[], "asyncio.Future[DeferResult]"]) -> bool:
        return await self._retry_while_down(ask) is DeferResult.LOCKED

    async def _wake(self, tenant_id: str, session_id: str) -> None:
        waiting: tuple[str, str] | None = (tenant_id, session_id)
        try:
            # One try for each session. If its row is locked, it still has its wake-up; if nothing is due, it was answered
            # elsewhere. Either way the slot goes to the next in line.
            while waiting is not None and await self._defer(Defer(*waiting, 0.0)) is not DeferResult.YES:
                waiting = self._slots.next_waiting(tenant_id, time.monotonic())
        except DatabaseUnavailableError as error:
            # The session gets its wake-up anyway, a little later.
            log.info("session.not_woken", session_id=session_id, error=str(error))
        else:
            self._nudge_relay()
