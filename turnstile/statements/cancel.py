"""Cancel: PENDING at once, RUNNING by request; one turn, a session's open turns, or a turn not yet submitted.

A PENDING turn becomes CANCELED at once. A RUNNING turn is marked. Its worker reads the mark with the heartbeat, sooner if a
hint reaches it (`streaming.cancel_hints`), and stops the handler (`worker.attempt.attempt`). The settle makes
the turn CANCELED whatever the handler returns, so that an acknowledged cancel never becomes SUCCEEDED. Cancelling a turn that
has ended changes nothing.

The cancelled head may have delayed its session (a retry's backoff). The same transaction makes the next turn due and returns
its row, so that the caller can send the wake-up without waiting for the relay.

A client that chooses its turns' ids may cancel a turn before its submit arrives: the cancel leaves a tombstone
(`statements.cancel_before_submit`).
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import LiteralString, assert_never
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.archive.reads import READ_ARCHIVED_STANDINGS
from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record
from turnstile.backends.postgres.database import Connection, Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.statements.cancel_before_submit import leave_tombstone
from turnstile.statements.session_head import IS_RUNNING, wake_head
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.status import TurnStatus

# The session's row first (lock order: sessions, then turns), so that two cancels do not each miss the other's new head.
LOCK_SESSION: LiteralString = f"""
SELECT s.session_id FROM turns t JOIN sessions s
    ON {by_key("s.tenant_id", "t.tenant_id")} AND s.session_id = t.session_id
 WHERE t.id = %(id)s AND {off_index("t.tenant_id")} = %(tenant)s FOR NO KEY UPDATE OF s
"""

LOCK_NAMED_SESSION: LiteralString = """
SELECT s.session_id FROM sessions s
 WHERE s.tenant_id = %(tenant)s AND s.session_id = %(session)s FOR NO KEY UPDATE
"""

LOCK_TURN: LiteralString = f"""
SELECT t.session_id, t.status FROM turns t WHERE t.id = %(id)s AND {off_index("t.tenant_id")} = %(tenant)s FOR NO KEY UPDATE
"""

# While the session is locked, no turn becomes open. The statement waits for turns that are being claimed or settled, and reads
# them again. Compensations are not cancelled: they undo what a turn did, and no client submitted them.
LOCK_OPEN: LiteralString = f"""
WITH found AS MATERIALIZED (
    SELECT h.id FROM turns h
     WHERE h.tenant_id = %(tenant)s AND h.session_id = %(session)s
       AND h.seq IS NOT NULL AND h.status IN ('PENDING', 'RUNNING')
    UNION ALL
    -- The ORDER BY fits only the index of a session's turns. Without it, a plan of an empty table may read the tenant's turns.
   (SELECT h.id FROM turns h
     WHERE %(scheduled)s AND h.tenant_id = %(tenant)s AND h.session_id = %(session)s
       AND h.seq IS NULL AND {off_index("h.status")} = 'PENDING' ORDER BY h.seq)
)
SELECT t.id, t.status FROM found JOIN turns t ON {by_key("t.id", "found.id")}
 WHERE {off_index("t.status")} IN ('PENDING', 'RUNNING') AND t.kind = 'turn' ORDER BY found.id FOR NO KEY UPDATE OF t
"""

# A separate statement, after the lock: in the lock's snapshot, a turn that was claimed meanwhile may still be PENDING.
CANCEL_PENDING: LiteralString = f"""
UPDATE turns t
   SET status = 'CANCELED', finished_at = clock_timestamp(), send_at = NULL, cancel_requested_at = clock_timestamp(),
       cancel_reason = %(reason)s
 WHERE t.id = ANY (%(ids)s::uuid[]) AND {off_index("t.status")} = 'PENDING'
"""

# It must not set `status`: that would count as another claim.
REQUEST_CANCEL: LiteralString = f"""
UPDATE turns t
   SET cancel_requested_at = coalesce(t.cancel_requested_at, clock_timestamp()),
       cancel_reason = coalesce(t.cancel_reason, %(reason)s)
 WHERE t.id = ANY (%(ids)s::uuid[]) AND {IS_RUNNING}
"""


@dataclass(frozen=True, slots=True)
class CanceledTurn:
    """A turn after its cancel. `status` RUNNING: asked to stop. `woken`: queue and wake-up of the session's new head, to send."""

    status: TurnStatus
    requested: bool
    """False: the turn had ended before, and nothing was changed."""
    session_id: str
    woken: tuple[str, OutgoingMessage] | None = None


@dataclass(frozen=True, slots=True)
class CanceledSession:
    """The turns that were open in the session, or the chosen ones. `woken`: as in `CanceledTurn`, only if a turn is left."""

    canceled: tuple[UUID, ...]
    """Turns that were CANCELED at once."""
    asked: tuple[UUID, ...]
    """RUNNING turns that were asked to stop."""
    woken: tuple[str, OutgoingMessage] | None = None


async def cancel(database: Database, tenant_id: str, turn_id: UUID, reason: CancelReason) -> CanceledTurn | None:
    """Cancels a turn; None if the tenant has no such turn. Raises DatabaseUnavailableError; may be called again.

    Raises RowLockedError if another transaction keeps a row locked for longer than the connection's lock timeout.
    """
    whose = {"id": turn_id, "tenant": tenant_id}
    how = {"ids": [turn_id], "reason": reason.value}
    async with database.transaction(tenant_id) as connection:
        await connection.execute(LOCK_SESSION, whose)
        turn = await (await connection.execute(LOCK_TURN, whose)).fetchone()
        # A separate statement: the lock's snapshot lacks what was archived meanwhile.
        archived = {"ids": [turn_id], "tenants": [tenant_id]}
        turn = turn or await (await connection.execute(READ_ARCHIVED_STANDINGS, archived)).fetchone()
        if turn is None:
            return None
        session_id, status = turn["session_id"], TurnStatus(turn["status"])
        match status:
            case TurnStatus.PENDING:
                await connection.execute(CANCEL_PENDING, how)
                woken = await wake_head(connection, tenant_id, session_id)
                return CanceledTurn(TurnStatus.CANCELED, requested=True, session_id=session_id, woken=woken)
            case TurnStatus.RUNNING:
                await connection.execute(REQUEST_CANCEL, how)
                return CanceledTurn(status, requested=True, session_id=session_id)
            case TurnStatus.SUCCEEDED | TurnStatus.FAILED | TurnStatus.CANCELED:
                return CanceledTurn(status, requested=False, session_id=session_id)
            case _:
                assert_never(status)


async def cancel_ahead(database: Database, tenant_id: str, turn_id: UUID, reason: CancelReason) -> CanceledTurn | None:
    """Cancels a turn. None if there is no such turn yet: a later submit with this id is then CANCELED from the start.

    Raises as `cancel`; may be called again.
    """
    met = await cancel(database, tenant_id, turn_id, reason)
    if met is not None:
        return met
    if await leave_tombstone(database, tenant_id, turn_id, reason):
        return None
    # Its submit was committed between the two statements.
    return await cancel(database, tenant_id, turn_id, reason)


async def cancel_session(
    database: Database, tenant_id: str, session_id: str, reason: CancelReason, *, requested_by: str
) -> CanceledSession | None:
    """Cancels every open turn of a session, scheduled ones included; None if the tenant has no such session.

    If these are several, the audit has an event of it in the same commit.

    Raises as `cancel`; may be called again.
    """
    session = {"tenant": tenant_id, "session": session_id}
    async with database.transaction(tenant_id) as connection:
        if await (await connection.execute(LOCK_NAMED_SESSION, session)).fetchone() is None:
            return None
        canceled, asked = await cancel_open(connection, tenant_id, session_id, reason, scheduled=True)
        woken = await wake_head(connection, tenant_id, session_id)
        if (turns := len(canceled) + len(asked)) > 1:
            event = AuditEvent(
                kind=AuditKind.TURNS_CANCELED,
                actor=requested_by,
                subject=f"open turns: session {session_id}",
                tenant_id=tenant_id,
                counts={"turns": turns},
            )
            await record(connection, event)
    return CanceledSession(canceled, asked, woken)


async def cancel_some(
    database: Database,
    tenant_id: str,
    session_id: str,
    chosen: Collection[tuple[UUID, TurnStatus]],
    reason: CancelReason,
) -> CanceledSession:
    """Cancels the open turns of a session whose (turn id, status) is among `chosen`, in one transaction: a worker does not begin
    one of them while the others are cancelled.

    Raises as `cancel`; may be called again.
    """
    async with database.transaction(tenant_id) as connection:
        await connection.execute(LOCK_NAMED_SESSION, {"tenant": tenant_id, "session": session_id})
        canceled, asked = await cancel_open(connection, tenant_id, session_id, reason, scheduled=True, chosen=chosen)
        woken = await wake_head(connection, tenant_id, session_id) if canceled else None
    return CanceledSession(canceled, asked, woken)


async def cancel_open(
    connection: Connection,
    tenant_id: str,
    session_id: str,
    reason: CancelReason,
    *,
    scheduled: bool,
    chosen: Collection[tuple[UUID, TurnStatus]] | None = None,
) -> tuple[tuple[UUID, ...], tuple[UUID, ...]]:
    """Cancels a session's open turns, or those `chosen`; returns the ids of those CANCELED at once, and of those asked to stop.

    The caller's transaction must have locked the session.
    """
    session = {"tenant": tenant_id, "session": session_id, "scheduled": scheduled}
    rows = await (await connection.execute(LOCK_OPEN, session)).fetchall()
    if chosen is not None:
        rows = [row for row in rows if (row["id"], row["status"]) in chosen]
    waiting, running = _with_status(rows, TurnStatus.PENDING), _with_status(rows, TurnStatus.RUNNING)
    if waiting:
        await connection.execute(CANCEL_PENDING, {"ids": list(waiting), "reason": reason.value})
    if running:
        await connection.execute(REQUEST_CANCEL, {"ids": list(running), "reason": reason.value})
    return waiting, running


def _with_status(rows: list[DictRow], status: TurnStatus) -> tuple[UUID, ...]:
    return tuple(row["id"] for row in rows if row["status"] == status)
