"""Sessions that do not move: their head has been due for long and does not run, its lease ran out, or a FAILED turn halts them.

Bounded on a table of any size. Due turns: the REACH oldest of each queue, over the index `turns_waiting`. Turns whose lease ran
out: among the RUNNING ones, which are as many as there are slots. Halted sessions have an index of their own. Queues are found in
the index, one step each, so that a queue that nobody declares any more is not left out.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS, by_key
from turnstile.statements.session_head import IN_INDEX_ORDER

REACH = 2_000
"""How many due turns of a queue are read at most, the oldest first."""

MOST_QUEUES = 100

# A session moves if its turn before the head ended recently, however long the head itself has been due. A scheduled
# turn without a `seq` stands for its session if nothing else of it is open.
STUCK: LiteralString = f"""
WITH RECURSIVE queues (name, place) AS (
    (SELECT t.queue, 1 FROM turns t WHERE {INDEXED_STATUS} = 'PENDING' ORDER BY t.queue LIMIT 1)
     UNION ALL
    SELECT following.queue, queues.place + 1
      FROM queues CROSS JOIN LATERAL (
          SELECT t.queue FROM turns t
           WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue > queues.name ORDER BY t.queue LIMIT 1) following
     WHERE queues.place < {MOST_QUEUES}
), due AS MATERIALIZED (
    SELECT o.*, count(*) OVER (PARTITION BY o.queue) >= {REACH} AS truncated FROM queues q CROSS JOIN LATERAL (
        SELECT t.id, t.tenant_id, t.session_id, t.seq, t.queue, coalesce(t.execute_at, t.created_at) AS since FROM turns t
         WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue = q.name
           AND coalesce(t.execute_at, t.created_at) < now() - make_interval(secs => %(older)s)
         ORDER BY coalesce(t.execute_at, t.created_at) LIMIT {REACH}) o
     WHERE %(queue)s::text IS NULL OR q.name = %(queue)s
), heads AS MATERIALIZED (
    SELECT d.id, d.tenant_id, d.session_id, d.queue, greatest(d.since, (
               SELECT p.finished_at FROM turns p
                WHERE p.tenant_id = d.tenant_id AND p.session_id = d.session_id AND p.seq < coalesce(d.seq, {2**63 - 1})
                ORDER BY p.seq DESC LIMIT 1)) AS since
      FROM due d
     WHERE NOT EXISTS (
               SELECT FROM turns e
                WHERE e.tenant_id = d.tenant_id AND e.session_id = d.session_id AND e.seq IS NOT NULL
                  AND e.status IN ('PENDING', 'RUNNING') AND e.seq < coalesce(d.seq, {2**63 - 1}))
       AND (SELECT s.halted_by FROM sessions s WHERE s.tenant_id = d.tenant_id AND s.session_id = d.session_id) IS NULL
), found AS (
   (SELECT h.id, h.tenant_id, h.session_id, h.queue, h.since FROM heads h
     WHERE h.since < now() - make_interval(secs => %(older)s) AND (%(tenant)s::text IS NULL OR h.tenant_id = %(tenant)s)
     ORDER BY h.since LIMIT %(limit)s)
     UNION ALL
   (SELECT r.id, r.tenant_id, r.session_id, r.queue, r.lease_until FROM turns r
     WHERE r.status = 'RUNNING' AND r.lease_until < now() AND (%(queue)s::text IS NULL OR r.queue = %(queue)s)
       AND (%(tenant)s::text IS NULL OR r.tenant_id = %(tenant)s)
     ORDER BY r.lease_until LIMIT %(limit)s)
     UNION ALL
   (SELECT f.id, f.tenant_id, f.session_id, f.queue, f.finished_at
      FROM (SELECT s.tenant_id, s.session_id, s.halted_by FROM sessions s WHERE s.halted_by IS NOT NULL OFFSET 0) s
     CROSS JOIN LATERAL (SELECT f.* FROM turns f WHERE {by_key("f.id", "s.halted_by")} LIMIT 1) f
     WHERE (%(queue)s::text IS NULL OR f.queue = %(queue)s) AND (%(tenant)s::text IS NULL OR f.tenant_id = %(tenant)s)
     ORDER BY f.finished_at LIMIT %(limit)s)
)
SELECT f.id, f.tenant_id, f.session_id, f.queue, f.since, (SELECT coalesce(bool_or(d.truncated), false) FROM due d) AS truncated
  FROM found f ORDER BY f.since, f.id LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckSession:
    """A session that does not move."""

    id: UUID
    """Its head, or the FAILED turn that halts it."""
    tenant_id: str
    session_id: str
    queue: str
    since: datetime | None
    """When it should have gone on: its head was due and the turn before it had ended, the lease ran out, the turn failed."""
    truncated: bool
    """A queue has more due turns than were read: younger stuck sessions of it may be missing."""


async def find_stuck_sessions(
    database: Database, *, older_than_seconds: float, limit: int, queue: str | None, tenant_id: str | None
) -> list[StuckSession]:
    """The sessions that have been stuck longest, at most `limit`; of all queues and tenants, or of one.

    A head counts once it has been due for `older_than_seconds`; expired leases and halts count at once. Raises
    DatabaseUnavailableError.
    """
    asked = {"older": float(older_than_seconds), "limit": limit, "queue": queue, "tenant": tenant_id}
    _, rows = await database.fetch_pipelined([(IN_INDEX_ORDER, {}), (STUCK, asked)])
    return [StuckSession(**row) for row in rows]
