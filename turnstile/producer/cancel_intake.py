"""Cancels that clients request by any route.

A cancel locks its session's row, so it goes through the gate (`producer.session_gate`).
"""

from uuid import UUID

from turnstile.archive.reads import TurnKey
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.erasure.request import Erasure, request_erasure
from turnstile.producer.session_gate import LOCKED_LANES, SessionGate
from turnstile.queries.turns import Standing, read_standings
from turnstile.statements.cancel import CanceledSession, CanceledTurn, cancel, cancel_ahead, cancel_session
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.submission.wake_ups import WakeUpSending
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.identifiers import may_choose

LANES = 2
"""Concurrent cancels, in addition to one for a session that is known to be locked."""
CONNECTIONS = LANES + LOCKED_LANES + 1
"""Database connections for cancels only: a locked session does not delay submits. One is for looking up the sessions of turns."""
LOOKUPS = 200


class Cancelling:
    """Cancels turns and notifies the worker, the readers and the queue. One per process."""

    def __init__(self, database: Database, hints: CancelHints, sending: WakeUpSending, gate: SessionGate) -> None:
        self._database = database
        self._hints = hints
        self._sending = sending
        self._gate = gate
        self._standing: Batcher[TurnKey, Standing | None] = Batcher(
            lambda wanted: read_standings(database, wanted), limit=LOOKUPS, line_of=lambda key: key.tenant_id
        )

    async def cancel_turn(self, tenant_id: str, turn_id: UUID) -> CanceledTurn | None:
        """Cancels a turn. None if it does not exist. If a client may choose the id, a later submit with it is then CANCELED from
        the start.

        Raises NoPlaceError, or DatabaseUnavailableError (RowLockedError: another transaction has locked the session). May be
        repeated.
        """
        standing = await self._standing(TurnKey(tenant_id, turn_id))
        async with self._gate.enter((tenant_id, str(turn_id) if standing is None else standing.session_id)):
            how = cancel_ahead if may_choose(tenant_id, turn_id) else cancel
            met = await how(self._database, tenant_id, turn_id, CancelReason.USER)
        if met is None:
            return None
        if met.requested:
            await self._hints.tell(tenant_id, met.session_id, turn_id, met.status)
        if met.woken is not None:
            await self._sending.send(*met.woken)
        return met

    async def cancel_session(self, tenant_id: str, session_id: str, requested_by: str) -> CanceledSession | None:
        """Cancels all open turns of the session, scheduled turns included; None if the tenant has no such session.

        Raises NoPlaceError, or DatabaseUnavailableError (RowLockedError: another transaction has locked the session). May be
        repeated.
        """
        async with self._gate.enter((tenant_id, session_id)):
            met = await cancel_session(
                self._database, tenant_id, session_id, CancelReason.USER, requested_by=requested_by
            )
        if met is None:
            return None
        await self._hints.publish(met.asked)
        await self._hints.tell_watchers(tenant_id, session_id, met.canceled)
        if met.woken is not None:
            await self._sending.send(*met.woken)
        return met

    async def erase_session(self, tenant_id: str, session_id: str, requested_by: str) -> Erasure | None:
        """Begins the erasure of a session, which the relays go on with; None if the tenant has no such session.

        Raises as `cancel_session`. May be repeated.
        """
        async with self._gate.enter((tenant_id, session_id)):
            requested = await request_erasure(self._database, tenant_id, session_id, requested_by)
        if requested is None:
            return None
        erasure, canceled = requested
        await self._hints.publish(canceled.asked)
        await self._hints.tell_watchers(tenant_id, session_id, canceled.canceled)
        return erasure
