"""The backlog, as the table has it: what is due in each queue and in nobody's hand, and how long the oldest has waited.

SQS counts messages. A session's hundred turns are a hundred messages of which one can be answered at a time, a wake-up that
was sent twice counts twice, and a turn in a drain has no message any more. Whoever decides how many workers there should be
wants the sessions that one more worker could begin with, and those that are being answered: `ready` and `running`.

Told as a log line a minute and queue, beside every relay (ADR 0034). Several relays tell the same: whoever counts the
lines takes the greatest, never the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turnstile.backends.postgres.database import Database

MOST = 10_000
"""As many turns of a queue are looked at, the oldest: a scan of milliseconds at any backlog, and no fleet is scaled by more.
Those of halted sessions come on top, each at a probe of its session's row."""

# The index `turns_waiting` has the queue and the moment since when a turn is due. Its predicate is an expression that stands
# here and nowhere else: under a pinned plan no other statement can take it for an index of its own.
BACKLOG: LiteralString = f"""
SELECT q.name AS queue, count(w.id) AS due, count(w.id) FILTER (WHERE w.is_head) AS ready,
       coalesce(extract(epoch FROM now() - min(w.since) FILTER (WHERE w.is_head)), 0)::float8 AS oldest_seconds,
       (SELECT count(*) FROM turns r WHERE r.status = 'RUNNING' AND r.queue = q.name) AS running,
       count(w.id) >= %(limit)s AS truncated
  FROM unnest(%(queues)s::text[]) q (name)
  LEFT JOIN LATERAL (
      SELECT o.id, o.since, NOT EXISTS (
                 SELECT FROM turns e
                  WHERE e.tenant_id = o.tenant_id AND e.session_id = o.session_id AND e.seq IS NOT NULL
                    AND e.status IN ('PENDING', 'RUNNING') AND e.seq < coalesce(o.seq, {2**63 - 1})) AS is_head
        FROM (SELECT t.id, t.tenant_id, t.session_id, t.seq, coalesce(t.execute_at, t.created_at) AS since
                FROM turns t
               WHERE (t.status || '') = 'PENDING' AND t.queue = q.name AND coalesce(t.execute_at, t.created_at) <= now()
                 -- A halted session waits for a person: no worker more would help it, and it must hide nobody who waits for one.
                 AND (SELECT s.halted_by FROM sessions s
                       WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) IS NULL
               ORDER BY coalesce(t.execute_at, t.created_at) LIMIT %(limit)s) o) w ON true
 GROUP BY q.name ORDER BY q.name
"""


@dataclass(frozen=True, slots=True)
class Backlog:
    """One queue at one moment. Beyond MOST turns, `due` and `ready` are of the oldest, and `truncated` says so."""

    queue: str
    due: int
    """Turns that are due and that nobody has claimed."""
    ready: int
    """Those of them that could be claimed now: the heads of their sessions."""
    oldest_seconds: float
    """How long the oldest of the ready ones has been due; 0 if there is none."""
    running: int
    """Turns that are being answered, or were when their worker was lost."""
    truncated: bool
    """There may be more than were looked at: `due` and `ready` are lower bounds."""


async def read_backlog(database: Database, queues: Sequence[str]) -> list[Backlog]:
    """The backlog of each of these queues, by name. Raises DatabaseUnavailableError."""
    return [Backlog(**row) for row in await database.fetch(BACKLOG, {"queues": list(queues), "limit": MOST})]
