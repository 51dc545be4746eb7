"""Cancels that clients request by any route. They use their own database connections and run one at a time per session.

A cancel locks its session's row. If another transaction has locked that row, the cancels of this session wait in line and occupy
one lane. Submits, reads, and cancels of other sessions continue.
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
"""Concurrent cancels. The third connection looks up the sessions of turns, in batches."""
LOOKUPS = 200

PATIENCE_SECONDS = 5.0
"""Longest wait of a cancel for a lane."""

HELD_WAIT_SECONDS = 0.1
"""Lock timeout if the last cancel of the session found its row locked: the client gets a refusal at once and may retry."""

log = structlog.get_logger("turnstile.api")
Met = TypeVar("Met")


class Cancelling:
    """Cancels turns and notifies the worker, the readers and the queue. One per process."""

    def __init__(self, database: Database, hints: CancelHints, sending: WakeUpSending) -> None:
        self._database = database
        self._hints = hints
        self._sending = sending
        self._standing: Batcher[TurnKey, Standing | None] = Batcher(
            lambda wanted: read_standings(database, wanted), limit=LOOKUPS
        )
        self._gate = SessionGate(LANES, PATIENCE_SECONDS)
        self._held: set[Session] = set()
        """Sessions whose row was locked by another transaction at the last cancel."""

    async def cancel_turn(self, tenant_id: str, turn_id: UUID) -> CanceledTurn | None:
        """Cancels a turn. None if it does not exist yet: a later submit with this id is then CANCELED from the start.

        Raises DatabaseUnavailableError (RowLockedError: another transaction has locked the session). May be repeated.
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
        """Cancels all open turns of the session, scheduled turns included; None if the tenant has no such session.

        Raises DatabaseUnavailableError (RowLockedError: another transaction has locked the session). May be repeated.
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
