"""Ends lost turns with a cancel request on paused queues.

Elsewhere the claim that takes a lost turn over ends it instead (`statements.claim`). On a paused queue nothing is claimed, and
the client would wait for its cancel until the resume. So a relay ends these turns, as that claim would: with a new fence and the
record of the lost attempt. It never begins a turn.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.statements.claim import EXPIRED
from turnstile.statements.lost_turns import TO_RECOVER
from turnstile.statements.session_head import DUE_OF, IS_RUNNING

# The conditions fit the index `turns_to_recover` and no other: those of EXPIRED fit that of all waiting turns, too, and a paused
# queue has many. As in the claim, a locked row is skipped: a later round finds it again.
END_LOST: LiteralString = f"""
WITH lost AS MATERIALIZED (
    SELECT t.id, t.fence, t.attempt, t.worker_id, t.started_at, greatest(t.queued_at, t.execute_at) AS due_at FROM turns t
     WHERE t.queue = ANY (%(queues)s::text[]) AND {TO_RECOVER} AND {IS_RUNNING} AND t.lease_until < now()
       AND t.cancel_requested_at IS NOT NULL
     ORDER BY t.id LIMIT %(limit)s FOR NO KEY UPDATE OF t SKIP LOCKED
), ended AS (
    UPDATE turns t
       SET status = 'CANCELED', crashes = t.crashes + 1, fence = nextval('fence_seq'), lease_until = NULL, send_at = NULL,
           finished_at = clock_timestamp()
      FROM lost WHERE t.id = ANY (ARRAY[lost.id]) AND {EXPIRED} AND t.cancel_requested_at IS NOT NULL
    RETURNING t.id, t.tenant_id, t.session_id, t.seq, t.trace_id, t.generation, t.finished_at,
              lost.fence AS lost_fence, lost.attempt AS lost_attempt, lost.worker_id AS lost_worker, lost.due_at, lost.started_at
), attempts AS (
    INSERT INTO turn_attempts (turn_id, attempt, fence, generation, worker_id, due_at, started_at, finished_at, outcome)
    SELECT id, lost_attempt, lost_fence, generation, lost_worker, due_at, started_at, finished_at, 'lost' FROM ended
), heir AS MATERIALIZED (
    -- Without it the session's next turn would wait for its resend deadline, long after the resume.
    SELECT n.id FROM ended e CROSS JOIN LATERAL (
        SELECT h.id FROM turns h
         WHERE h.tenant_id = e.tenant_id AND h.session_id = e.session_id AND h.seq > e.seq
           AND h.status = 'PENDING' ORDER BY h.seq LIMIT 1) first
      JOIN turns n ON n.id = ANY (ARRAY[first.id])
     WHERE {DUE_OF.format(of="n")} FOR NO KEY UPDATE OF n SKIP LOCKED
), woken AS (
    UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM heir WHERE t.id = ANY (ARRAY[heir.id])
)
SELECT id AS turn_id, session_id, trace_id FROM ended
"""


@dataclass(frozen=True, slots=True)
class EndedTurn:
    turn_id: UUID
    session_id: str
    trace_id: str


async def cancel_lost(database: Database, paused: Collection[str], limit: int) -> list[EndedTurn]:
    """Ends up to `limit` of these turns on the queues `paused`, and returns them. Raises DatabaseUnavailableError."""
    rows = await database.fetch(END_LOST, {"queues": list(paused), "limit": limit})
    return [EndedTurn(**row) for row in rows]
