"""Halting queues (`on_failure = "halt"`): how an operator resumes a session that a FAILED turn has halted.

On these queues order comes before availability. When a turn fails, the settle (or the claim that finds a crash loop) sets
`sessions.halted_by` in the same statement. No dead letter is owed, and no turn of the session is claimed until an operator
decides. `retry` runs the turn again in its old place. `skip` passes it over: it becomes a FAILED turn like any other, its dead
letter is owed, and a redrive may move it to the end of its session.

Each is one transaction that locks the session's row first (lock order: sessions, then turns). It works whatever the queue's
present configuration is, and adds a record to `redrives` and an audit event. A repeat changes nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record
from turnstile.backends.postgres.database import Connection, Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.statements.compensate import IS_BEING_COMPENSATED, IS_OVERTAKEN
from turnstile.statements.redrive_audit import RECORD
from turnstile.statements.revive import EARLIER_TRACE, KEEP_TRACE, KEPT_TRACE, NEW_RUN
from turnstile.statements.session_head import IS_FAILED, wake_head
from turnstile.statements.start_children import HAS_SUCCESSOR
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.status import TurnStatus

READ_HALT: LiteralString = f"""
SELECT t.id, t.tenant_id, t.session_id, t.queue, t.status, t.error_class, t.finished_at,
       coalesce(s.halted_by = t.id, false) AS halts, {IS_FAILED} AND {HAS_SUCCESSOR} AS replaced,
       {IS_FAILED} AND {IS_BEING_COMPENSATED} AS compensated, {IS_FAILED} AND {IS_OVERTAKEN} AS overtaken,
       (SELECT count(*) FROM turns w WHERE w.tenant_id = t.tenant_id AND w.session_id = t.session_id
                                       AND w.seq IS NOT NULL AND w.status IN ('PENDING', 'RUNNING')) AS waiting
  FROM turns t LEFT JOIN sessions s ON {by_key("s.tenant_id", "t.tenant_id")} AND s.session_id = t.session_id
 WHERE t.id = %(id)s
"""

# For a compensation it also locks the compensated turn's session, as a redrive does: so each sees what the other did to the pair.
# The turn's own lock is for the submit that starts the call of a lost child again.
LOCK_HALTED: LiteralString = f"""
WITH locked AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id, s.halted_by
      FROM (SELECT t.tenant_id, t.session_id FROM turns t WHERE t.id = %(id)s
             UNION
            SELECT p.tenant_id, p.session_id
              FROM turns t CROSS JOIN LATERAL (
                   SELECT p.tenant_id, p.session_id FROM turns p
                    WHERE p.id = t.parent_turn_id AND {off_index("p.tenant_id")} = t.tenant_id OFFSET 0) p
             WHERE t.id = %(id)s AND t.kind = 'compensation') k
      JOIN sessions s ON {by_key("s.tenant_id", "k.tenant_id")} AND s.session_id = k.session_id
     ORDER BY k.tenant_id, k.session_id FOR NO KEY UPDATE OF s
)
SELECT s.tenant_id, s.session_id, t.queue
  FROM turns t JOIN locked s ON (s.tenant_id, s.session_id) IS NOT DISTINCT FROM (t.tenant_id, t.session_id)
 WHERE t.id = %(id)s AND s.halted_by = t.id FOR NO KEY UPDATE OF t
"""

# As a redrive, but the turn keeps its place.
RETRY: LiteralString = f"""
WITH earlier AS MATERIALIZED (
SELECT {EARLIER_TRACE} FROM turns t WHERE t.id = %(id)s
), revived AS (
UPDATE turns t
   SET {NEW_RUN}, send_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %(expires)s),
       trace_id = %(trace)s, span_id = %(span)s
  FROM earlier n
 WHERE t.id = %(id)s AND {IS_FAILED} AND NOT {HAS_SUCCESSOR} AND NOT {IS_BEING_COMPENSATED} AND NOT {IS_OVERTAKEN}
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.trace_id, t.span_id, {KEPT_TRACE}
), kept AS ({KEEP_TRACE})
SELECT id, tenant_id, session_id, queue, trace_id, span_id FROM revived
"""

OWE_DEAD_LETTER: LiteralString = f"""
UPDATE turns t SET send_at = clock_timestamp() WHERE t.id = %(id)s AND {IS_FAILED} AND t.dead_lettered_at IS NULL
"""

RESUME: LiteralString = """
UPDATE sessions SET halted_by = NULL, updated_at = clock_timestamp()
 WHERE tenant_id = %(tenant)s AND session_id = %(session)s
"""


class HaltDecision(StrEnum):
    """The operator's decision about the turn that halts its session, as it is recorded in `redrives`."""

    RETRY = "retry"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Halt:
    """A turn, and whether it halts its session (`halts`): then no turn of the session is claimed."""

    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    status: TurnStatus
    error_class: str | None
    finished_at: datetime | None
    halts: bool
    replaced: bool
    """It is a FAILED child, and its redriven parent has started the call again: it can only be skipped."""
    compensated: bool
    """It is FAILED, and its compensation has not ended."""
    overtaken: bool
    """It is a FAILED compensation, and its turn is no longer FAILED."""
    waiting: int
    """Open turns of its session."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The session is no longer halted. `woken`: queue and wake-up of its head, to send; None if nothing is due."""

    woken: tuple[str, OutgoingMessage] | None


async def read_halt(database: Database, turn_id: UUID) -> Halt | None:
    """The state of a turn; None if the table does not have it."""
    for row in await database.fetch(READ_HALT, {"id": turn_id}):
        return Halt(**{**row, "status": TurnStatus(row["status"])})
    return None


async def retry(
    database: Database, turn_id: UUID, trace: TraceContext, *, expires_in_seconds: float, requested_by: str
) -> Resumed | None:
    """Makes the turn PENDING in its old place. Changes nothing and returns None if it does not halt a session (any
    more) or may not run again (see `Halt`).

    The caller sends the wake-up; if it does not, the relay does.
    """
    given = {"id": turn_id, "trace": trace.trace_id, "span": trace.span_id, "expires": float(expires_in_seconds)}
    async with database.connection() as connection, connection.transaction():
        halted = await _lock(connection, turn_id)
        retried = halted and await (await connection.execute(RETRY, given)).fetchone()
        if not halted or not retried:
            return None
        await _resume(connection, halted, turn_id, HaltDecision.RETRY, requested_by)
    return Resumed((retried["queue"], OutgoingMessage.about(retried)))


async def skip(database: Database, turn_id: UUID, *, requested_by: str) -> Resumed | None:
    """Leaves the turn FAILED, owes its dead letter and makes the session's head due. None if it does not halt a session
    (any more).

    The caller sends the wake-up; if it does not, the relay does.
    """
    async with database.connection() as connection, connection.transaction():
        halted = await _lock(connection, turn_id)
        if not halted:
            return None
        await connection.execute(OWE_DEAD_LETTER, {"id": turn_id})
        await _resume(connection, halted, turn_id, HaltDecision.SKIP, requested_by)
        return Resumed(await wake_head(connection, halted["tenant_id"], halted["session_id"]))


async def _lock(connection: Connection, turn_id: UUID) -> dict[str, Any] | None:
    return await (await connection.execute(LOCK_HALTED, {"id": turn_id})).fetchone()


async def _resume(
    connection: Connection, halted: dict[str, Any], turn_id: UUID, decision: HaltDecision, requested_by: str
) -> None:
    await connection.execute(RESUME, {"tenant": halted["tenant_id"], "session": halted["session_id"]})
    redrive = {
        "queue": halted["queue"],
        "requested_by": requested_by,
        "filter": Jsonb({decision.value: str(turn_id)}),
        "matched": 1,
        "ids": [turn_id] if decision is HaltDecision.RETRY else [],
        "finished": True,
    }
    await connection.execute(RECORD, redrive)
    kind = AuditKind.TURN_RETRIED if decision is HaltDecision.RETRY else AuditKind.TURN_SKIPPED
    tenant = halted["tenant_id"]
    await record(connection, AuditEvent(kind=kind, actor=requested_by, subject=f"turn {turn_id}", tenant_id=tenant))
