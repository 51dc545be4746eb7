"""Wake: an operator makes a waiting turn due now. It ends a retry's wait, a snooze or a schedule, and owes the wake-up at once.

Only a PENDING turn changes, and only one that could then begin: not behind an earlier turn, in a halted session, on a paused
queue or before its children have ended. A turn that is due already gets another wake-up. A scheduled turn gets its place in the
session from the next round of a relay (`statements.place_scheduled`), as if its time had come.

The statement locks only the turn, and skips a locked one: a claim, a cancel or a settle has it, and the next look sees what it
made of the turn. A session that is halted or a queue that is paused at the same moment does no harm: no worker begins the turn.
"""

import enum
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.locked_rows import stays_locked
from turnstile.statements.session_head import IS_PENDING, OPEN_HEAD
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.status import TurnStatus

# A join that is over or has expired does not count: `execute_at` is past then.
_JOINS: LiteralString = "(num_nonnulls(t.joining) > 0 AND t.execute_at > now())"

# `queued_at` of a scheduled turn is the time that it was scheduled for: it begins to wait earlier now.
WAKE_TURN: LiteralString = f"""
WITH named AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.session_id, t.queue, t.status, t.seq, t.execute_at, t.trace_id, t.span_id, h.id AS head_id,
           s.halted_by, {_JOINS} AS joins, EXISTS (SELECT FROM paused_queues p WHERE p.queue = t.queue) AS paused
      FROM turns t
      LEFT JOIN sessions s ON {by_key("s.tenant_id", "t.tenant_id")} AND s.session_id = t.session_id
      LEFT JOIN LATERAL ({OPEN_HEAD.format(of="t")}) h ON true
     WHERE t.id = %(id)s
), free AS MATERIALIZED (
    SELECT t.id FROM named n JOIN turns t ON {by_key("t.id", "n.id")}
     WHERE {IS_PENDING} AND NOT {_JOINS} AND NOT n.paused AND n.halted_by IS NULL AND (t.seq IS NULL OR n.head_id = t.id)
       FOR NO KEY UPDATE OF t SKIP LOCKED
), woken AS (
    UPDATE turns t
       SET execute_at = CASE WHEN t.execute_at > clock_timestamp() THEN clock_timestamp() ELSE t.execute_at END,
           queued_at = least(t.queued_at, clock_timestamp()), send_at = clock_timestamp(), sends = 0
      FROM free WHERE %(apply)s AND {by_key("t.id", "free.id")} AND {IS_PENDING} AND NOT {_JOINS}
    RETURNING t.id
)
SELECT n.*, free.id IS NOT NULL AS free, woken.id IS NOT NULL AS woken
  FROM named n LEFT JOIN free USING (id) LEFT JOIN woken USING (id)
"""


class NotWoken(enum.StrEnum):
    """Why a turn can't be made due. The value completes a sentence about the turn."""

    RUNNING = "is RUNNING"
    ENDED = "has ended"
    JOINING = "waits for its children"
    PAUSED = "waits on a paused queue"
    HALTED = "waits in a halted session"
    BEHIND = "waits for an earlier turn of its session"
    LOCKED = "is locked by another transaction"


@dataclass(frozen=True, slots=True)
class Woken:
    """The turn is due, or would be. `message` goes to `queue`; a relay sends it, too."""

    queue: str
    message: OutgoingMessage
    placed: bool
    """False: it was scheduled, and waits for a relay to give it its place. A wake-up sent before that finds nothing."""


async def wake_turn(database: Database, turn_id: UUID, *, by: str | None) -> Woken | NotWoken | None:
    """Makes a waiting turn due now; None if the table does not have it. The audit names the operator (`by`); without one it only
    says what it would do.

    Waits for a locked row for a tenth of a second. Raises DatabaseUnavailableError; may be called again.
    """
    found: Woken | NotWoken | None = None

    async def look() -> bool:
        nonlocal found
        found = await _wake(database, turn_id, by)
        return found is NotWoken.LOCKED

    await stays_locked(look)
    return found


async def _wake(database: Database, turn_id: UUID, by: str | None) -> Woken | NotWoken | None:
    async with database.connection() as connection, connection.transaction():
        given = {"id": turn_id, "apply": by is not None}
        row = await (await connection.execute(WAKE_TURN, given)).fetchone()
        if row is None:
            return None
        if by is not None and row["woken"]:
            subject, tenant = f"turn {turn_id}", row["tenant_id"]
            await record(connection, AuditEvent(kind=AuditKind.TURN_WOKEN, actor=by, subject=subject, tenant_id=tenant))
    return _read(row, "woken" if by is not None else "free")


def _read(row: DictRow, done: str) -> Woken | NotWoken:
    """`done`: the column that says whether the turn was due."""
    status = TurnStatus(row["status"])
    if status.is_terminal:
        return NotWoken.ENDED
    if status is TurnStatus.RUNNING:
        return NotWoken.RUNNING
    if row["halted_by"] is not None:
        return NotWoken.HALTED
    if row["joins"]:
        return NotWoken.JOINING
    if row["seq"] is not None and row["head_id"] != row["id"]:
        return NotWoken.BEHIND
    if row["paused"]:
        return NotWoken.PAUSED
    if not row[done]:
        return NotWoken.LOCKED
    return Woken(row["queue"], OutgoingMessage.about(row), placed=row["seq"] is not None)
