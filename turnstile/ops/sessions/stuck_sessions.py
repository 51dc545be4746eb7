"""Sessions that do not move: their head has been due for long and does not run, its lease ran out, or a FAILED turn halts them.

Bounded on a table of any size. Due turns: the REACH oldest of each queue, over the index `turns_waiting`. Turns whose lease ran
out: among the RUNNING ones, which are as many as there are slots. Halted sessions have an index of their own. Queues are found in
the index, one step each, so that a queue that nobody declares any more is not left out.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import LiteralString
from uuid import UUID

from sqlalchemy import column, select, text

from turnstile.backends.postgres.core_text import LIMIT, given, text_of
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS, by_key
from turnstile.queries.turn_lists import equal
from turnstile.statements.session_head import IN_INDEX_ORDER

REACH = 2_000
"""How many due turns of a queue are read at most, the oldest first."""

MOST_QUEUES = 100

_EVERY_QUEUE = text(f"""
(SELECT t.queue AS name, 1 AS place FROM turns t WHERE {INDEXED_STATUS} = 'PENDING' ORDER BY t.queue LIMIT 1)
 UNION ALL
SELECT following.queue, queues.place + 1
  FROM queues CROSS JOIN LATERAL (
      SELECT t.queue FROM turns t WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue > queues.name ORDER BY t.queue LIMIT 1) following
 WHERE queues.place < {MOST_QUEUES}
""").columns(column("name"), column("place"))

# A session moves if its turn before the head ended recently, however long the head itself has been due. A scheduled
# turn without a `seq` stands for its session if nothing else of it is open.
_STUCK = text(f"""
WITH due AS MATERIALIZED (
    SELECT o.*, count(*) OVER (PARTITION BY o.queue) >= {REACH} AS truncated FROM queues q CROSS JOIN LATERAL (
        SELECT t.id, t.tenant_id, t.session_id, t.seq, t.queue, coalesce(t.execute_at, t.created_at) AS since FROM turns t
         WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue = q.name
           AND coalesce(t.execute_at, t.created_at) < now() - make_interval(secs => :older)
         ORDER BY coalesce(t.execute_at, t.created_at) LIMIT {REACH}) o
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
    SELECT h.id, h.tenant_id, h.session_id, h.queue, h.since FROM heads h
     WHERE h.since < now() - make_interval(secs => :older)
     UNION ALL
    SELECT r.id, r.tenant_id, r.session_id, r.queue, r.lease_until FROM turns r
     WHERE r.status = 'RUNNING' AND r.lease_until < now()
     UNION ALL
    SELECT f.id, f.tenant_id, f.session_id, f.queue, f.finished_at
      FROM (SELECT s.halted_by FROM sessions s WHERE s.halted_by IS NOT NULL OFFSET 0) s
     CROSS JOIN LATERAL (SELECT f.* FROM turns f WHERE {by_key("f.id", "s.halted_by")} LIMIT 1) f
)
SELECT f.*, (SELECT coalesce(bool_or(d.truncated), false) FROM due d) AS truncated FROM found f
""")


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
    filters = {"queue": queue, "tenant_id": tenant_id}
    asked = {**filters, "older": float(older_than_seconds), "limit": limit}
    _, rows = await database.fetch_pipelined([(IN_INDEX_ORDER, {}), (make_statement(given(filters)), asked)])
    return [StuckSession(**row) for row in rows]


@cache
def make_statement(filters: frozenset[str]) -> LiteralString:
    """The sessions of the queue and of the tenant, where `filters` has their names."""
    named = text("SELECT :queue AS name").columns(column("name"))
    queues = named.cte("queues") if "queue" in filters else _EVERY_QUEUE.cte("queues", recursive=True)
    found = _STUCK.columns(*(column(name) for name in StuckSession.__dataclass_fields__)).subquery("f")
    wanted = select(found).where(*equal(filters, of=found, names=("queue", "tenant_id"))).add_cte(queues)
    return text_of(wanted.order_by(found.c.since, found.c.id).limit(LIMIT))
