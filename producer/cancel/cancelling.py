"""Cancels on behalf of clients, whichever way they arrive: over connections of their own, and of a session one at a time.

A cancel waits for its session's row. If another transaction holds that row, the cancels of this session wait one behind the other
and take one of the lanes. Submits, reads and cancels of other sessions go on.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar
from uuid import UUID

import structlog

from turnstile.archive.reads import TurnKey
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import RowLockedError
from turnstile.producer.session_gate import Session, SessionGate
from turnstile.queries.turns import Standing, read_standings
from turnstile.statements.cancel import CanceledSession, CanceledTurn, cancel_ahead, cancel_session
from turnstile.streaming.cancel_signals import CancelHints
from turnstile.submit.wake_ups import WakeUpSending
from turnstile.turn.cancel_reason import CancelReason

CONNECTIONS = 3
LANES = 2
"""Cancels at a time. The third connection looks up which sessions turns belong to, for all who ask at once."""
LOOKUPS = 200

PATIENCE_SECONDS = 5.0
"""From the arrival of a cancel until it has a lane."""

HELD_WAIT_SECONDS = 0.1
"""For the row of a session that the last cancel found held, so that its clients are refused at once and may try again."""

log = structlog.get_logger("turnstile.api")
Met = TypeVar("Met")


class Cancelling:
    """Cancels turns and tells those who wait for it: the worker, the readers, the queue. One per process."""

    def __init__(self, database: Database, hints: CancelHints, sending: WakeUpSending) -> None:
        self._database = database
        self._hints = hints
        self._sending = sending
        self._standing: Batcher[TurnKey, Standing | None] = Batcher(
            lambda wanted: read_standings(database, wanted), limit=LOOKUPS
        )
        self._gate = SessionGate(LANES, PATIENCE_SECONDS)
        self._held: set[Session] = set()
        """Sessions whose last cancel found the row held."""

    async def cancel_turn(self, tenant_id: str, turn_id: UUID) -> CanceledTurn | None:
        """Cancels a turn. None if there is none yet: a submit that arrives under this id is then born CANCELED.

        Raises DatabaseUnavailableError (RowLockedError: another transaction holds the session). May be called again.
        """
        standing = await self._standing(TurnKey(tenant_id, turn_id))
        met = await self._enter(
            (tenant_id, str(turn_id) if standing is None else standing.session_id),
            lambda wait: cancel_ahead(self._database, tenant_id, turn_id, CancelReason.USER, row_wait_seconds=wait),
        )
        if met is None:
            return None
        if met.requested:
            await self._hints.tell(tenant_id, met.session_id, turn_id, met.status)
        if met.woken is not None:
            await self._sending.send(*met.woken)
        return met

    async def cancel_session(self, tenant_id: str, session_id: str) -> CanceledSession | None:
        """Cancels all that is open in the session, scheduled turns included; None if the tenant has no such session.

        Raises DatabaseUnavailableError (RowLockedError: another transaction holds the session). May be called again.
        """
        met = await self._enter(
            (tenant_id, session_id),
            lambda wait: cancel_session(
                self._database, tenant_id, session_id, CancelReason.USER, row_wait_seconds=wait
            ),
        )
        if met is None:
            return None
        await self._hints.publish(met.asked)
        await self._hints.tell_watchers(tenant_id, session_id, met.canceled)
        if met.woken is not None:
            await self._sending.send(*met.woken)
        return met

    async def _enter(self, session: Session, cancel: Callable[[float | None], Awaitable[Met]]) -> Met:
        async with self._gate.enter(session):
            known = session in self._held
            try:
                met = await cancel(HELD_WAIT_SECONDS if known else None)
            except RowLockedError:
                if not known:
                    self._held.add(session)
                    tenant_id, session_id = session
                    log.warning("api.session_held", tenant_id=tenant_id, session_id=session_id)
                raise
            self._held.discard(session)
            return met
