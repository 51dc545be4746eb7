"""Cancel: PENDING at once, RUNNING by request (G15).

A waiting turn is CANCELED here and now. A running one is marked; its worker learns of it from the heartbeat and the
settle makes it CANCELED whatever the handler came to, so that an acknowledged cancel never becomes SUCCEEDED. Cancelling
a turn that has ended changes nothing.

The cancelled head may have held up its session (a retry's backoff): whatever is next is made due in the same
transaction, and its row is returned, so that the caller can send the wake-up without waiting for the relay.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import LiteralString
from uuid import UUID

from turns.database import Database
from turns.head import WAKE_HEAD
from turns.identifiers import TraceContext
from turns.message import WakeUp
from turns.message_queue import OutgoingMessage
from turns.status import TurnStatus

# The session's row first (lock order: sessions, then turns), so that two cancels do not each miss the other's new head.
LOCK_SESSION: LiteralString = """
SELECT s.session_id FROM turns t JOIN sessions s USING (tenant_id, session_id)
 WHERE t.id = %(id)s AND t.tenant_id = %(tenant)s FOR NO KEY UPDATE OF s
"""

CANCEL: LiteralString = """
UPDATE turns t
   SET status = CASE WHEN t.status = 'PENDING' THEN 'CANCELED' ELSE t.status END,
       finished_at = CASE WHEN t.status = 'PENDING' THEN clock_timestamp() END,
       send_at = CASE WHEN t.status = 'PENDING' THEN NULL ELSE t.send_at END,
       cancel_requested_at = coalesce(t.cancel_requested_at, clock_timestamp()),
       cancel_reason = coalesce(t.cancel_reason, %(reason)s)
 WHERE t.id = %(id)s AND t.tenant_id = %(tenant)s AND t.status IN ('PENDING', 'RUNNING')
RETURNING t.tenant_id, t.session_id, t.status
"""

READ: LiteralString = "SELECT session_id, status, worker_id FROM turns WHERE id = %(id)s AND tenant_id = %(tenant)s"


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
        changed = await (await connection.execute(CANCEL, {**whose, "reason": reason.value})).fetchone()
        if changed is None:
            row = await (await connection.execute(READ, whose)).fetchone()
            if row is None:
                return None
            return CanceledTurn(TurnStatus(row["status"]), requested=False, session_id=row["session_id"])
        status = TurnStatus(changed["status"])
        if status is TurnStatus.RUNNING:
            return CanceledTurn(status, requested=True, session_id=changed["session_id"])
        session = {"tenant": tenant_id, "session": changed["session_id"]}
        head = await (await connection.execute(WAKE_HEAD, session)).fetchone()
    if head is None:
        return CanceledTurn(status, requested=True, session_id=changed["session_id"])
    trace = TraceContext(head["trace_id"], head["span_id"])
    message = OutgoingMessage(WakeUp(tenant_id, head["session_id"], head["id"]), trace.traceparent)
    return CanceledTurn(status, requested=True, session_id=changed["session_id"], woken=(head["queue"], message))
