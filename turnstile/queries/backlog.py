"""The backlog, according to the table: what is due but not claimed in each queue, and how long the oldest turn has waited.

SQS counts messages, which differ from work. A session's hundred turns are a hundred messages, but only one can run at a time; a
wake-up sent twice counts twice; and a turn in a drain has no message any more. Scaling needs the sessions that another worker
could start now, and those that are running: `ready` and `running`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS
from turnstile.statements.session_head import IN_INDEX_ORDER

MOST = 10_000
"""How many turns of a queue are read at most, the oldest first: a scan of milliseconds at any backlog, and scaling needs no more.
Turns of halted sessions are read in addition; each costs a look-up of its session's row."""

# The index `turns_waiting` has the queue and the time since which a turn is due. Its predicate is an expression that only
# statements like these use: no other statement with a pinned plan can use the index.
_DUE: LiteralString = f"""
SELECT t.id, t.tenant_id, t.session_id, t.seq, coalesce(t.execute_at, t.created_at) AS since
  FROM turns t
 WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue = q.name AND coalesce(t.execute_at, t.created_at) <= now()
   -- A halted session waits for an operator: more workers would not help it, and it must not use up the limit.
   AND (SELECT s.halted_by FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) IS NULL
 ORDER BY coalesce(t.execute_at, t.created_at) LIMIT %(limit)s
"""

BACKLOG: LiteralString = f"""
SELECT q.name AS queue, count(w.id) AS due, count(w.id) FILTER (WHERE w.is_head) AS ready,
       coalesce(extract(epoch FROM now() - min(w.since) FILTER (WHERE w.is_head)), 0)::float8 AS oldest_seconds,
       (SELECT count(*) FROM turns r WHERE r.status = 'RUNNING' AND r.queue = q.name) AS running,
       count(w.id) >= %(limit)s AS truncated
  FROM unnest(%(queues)s::text[]) q (name)
  LEFT JOIN LATERAL (
      SELECT o.id, o.since, NOT EXISTS (
                 SELECT FROM turns e
                  WHERE e.tenant_id = o.tenant_id AND e.session_id = o.session_id
                    AND e.status IN ('PENDING', 'RUNNING') AND e.seq < coalesce(o.seq, {2**63 - 1})) AS is_head
        FROM ({_DUE}) o) w ON true
 GROUP BY q.name ORDER BY q.name
"""

BY_TENANT: LiteralString = f"""
SELECT q.name AS queue, w.tenant_id, count(*) FILTER (WHERE w.due) AS due, count(*) FILTER (WHERE NOT w.due) AS running
  FROM unnest(%(queues)s::text[]) q (name)
 CROSS JOIN LATERAL (
      SELECT o.tenant_id, true AS due FROM ({_DUE}) o
       UNION ALL
      SELECT r.tenant_id, false FROM turns r WHERE r.status = 'RUNNING' AND r.queue = q.name) w
 GROUP BY q.name, w.tenant_id ORDER BY q.name, due DESC, w.tenant_id
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """One queue at one moment. Of more than MOST turns, `due` and `ready` count only the oldest; then `truncated` is set."""

    queue: str
    due: int
    """Turns that are due and not claimed."""
    ready: int
    """Those of `due` that could be claimed now: the heads of their sessions."""
    oldest_seconds: float
    """How long the oldest of `ready` has been due; 0 if there is none."""
    running: int
    """RUNNING turns, including those whose worker was lost."""
    truncated: bool
    """There may be more turns than were read: `due` and `ready` are lower bounds."""


async def read_backlog(database: Database, queues: Sequence[str]) -> list[Backlog]:
    """The backlog of each of these queues, ordered by name. Raises DatabaseUnavailableError."""
    return [Backlog(**row) for row in await database.fetch(BACKLOG, {"queues": list(queues), "limit": MOST})]


@dataclass(frozen=True, slots=True)
class TenantBacklog:
    """One tenant's part of a queue's backlog. Of more than MOST due turns, only the oldest are counted."""

    queue: str
    tenant_id: str
    due: int
    running: int


async def read_backlog_by_tenant(database: Database, queues: Sequence[str]) -> list[TenantBacklog]:
    """The tenants of each of these queues, those with the most due turns first. Raises DatabaseUnavailableError."""
    _, rows = await database.fetch_pipelined(
        [(IN_INDEX_ORDER, {}), (BY_TENANT, {"queues": list(queues), "limit": MOST})]
    )
    return [TenantBacklog(**row) for row in rows]
