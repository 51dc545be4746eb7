"""Cancel: PENDING at once, RUNNING by request (G15).

A waiting turn is CANCELED here and now. A running one is marked; its worker learns of it from the heartbeat and the
settle makes it CANCELED whatever the handler came to, so that an acknowledged cancel never becomes SUCCEEDED. Cancelling
a turn that has ended changes nothing.

The cancelled head may have held up its session (a retry's backoff): whatever is next is made due in the same
transaction, and its row is returned, so that the caller can send the wake-up without waiting for the relay.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import LiteralString, assert_never
from uuid import UUID

from turns.database import Database
from turns.envelope import OutgoingMessage
from turns.head import WAKE_HEAD
from turns.identifiers import TraceContext
from turns.message import WakeUp
from turns.status import TurnStatus

# The session's row first (lock order: sessions, then turns), so that two cancels do not each miss the other's new head.
LOCK_SESSION: LiteralString = """
SELECT s.session_id FROM turns t JOIN sessions s USING (tenant_id, session_id)
 WHERE t.id = %(id)s AND t.tenant_id = %(tenant)s FOR NO KEY UPDATE OF s
"""

LOCK_TURN: LiteralString = """
SELECT t.session_id, t.status FROM turns t WHERE t.id = %(id)s AND t.tenant_id = %(tenant)s FOR NO KEY UPDATE
"""

CANCEL_PENDING: LiteralString = """
UPDATE turns t
   SET status = 'CANCELED', finished_at = clock_timestamp(), send_at = NULL, cancel_requested_at = clock_timestamp(),
       cancel_reason = %(reason)s
 WHERE t.id = %(id)s AND t.status = 'PENDING'
"""

# Without touching `status`: that would be taken for another claim.
REQUEST_CANCEL: LiteralString = """
UPDATE turns t
   SET cancel_requested_at = coalesce(t.cancel_requested_at, clock_timestamp()),
       cancel_reason = coalesce(t.cancel_reason, %(reason)s)
 WHERE t.id = %(id)s AND t.status = 'RUNNING'
"""


class CancelReason(StrEnum):
    """Why a turn was stopped."""

    USER = "user"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class CanceledTurn:
    """What the cancel met. `status` RUNNING: asked to stop. `woken`: the wake-up of the session's new head, to be sent."""

    status: TurnStatus
    requested: bool
    """False: the turn had ended before, and nothing was changed."""
    session_id: str
    woken: tuple[str, OutgoingMessage] | None = None


async def cancel(database: Database, tenant_id: str, turn_id: UUID, reason: CancelReason) -> CanceledTurn | None:
    """Cancels a turn; None if the tenant has no such turn. Raises DatabaseUnavailableError; may be called again."""
    whose = {"id": turn_id, "tenant": tenant_id}
    async with database.connection() as connection, connection.transaction():
        await connection.execute(LOCK_SESSION, whose)
        turn = await (await connection.execute(LOCK_TURN, whose)).fetchone()
        if turn is None:
            return None
        session_id, status = turn["session_id"], TurnStatus(turn["status"])
        match status:
            case TurnStatus.PENDING:
                await connection.execute(CANCEL_PENDING, {**whose, "reason": reason.value})
                session = {"tenant": tenant_id, "session": session_id}
                head = await (await connection.execute(WAKE_HEAD, session)).fetchone()
            case TurnStatus.RUNNING:
                await connection.execute(REQUEST_CANCEL, {**whose, "reason": reason.value})
                return CanceledTurn(status, requested=True, session_id=session_id)
            case TurnStatus.SUCCEEDED | TurnStatus.FAILED | TurnStatus.CANCELED:
                return CanceledTurn(status, requested=False, session_id=session_id)
            case _:
                assert_never(status)
    if head is None:
        return CanceledTurn(TurnStatus.CANCELED, requested=True, session_id=session_id)
    trace = TraceContext(head["trace_id"], head["span_id"])
    message = OutgoingMessage(WakeUp(tenant_id, head["session_id"], head["id"]), trace.traceparent)
    return CanceledTurn(TurnStatus.CANCELED, requested=True, session_id=session_id, woken=(head["queue"], message))
