"""What has not ended in each queue, by what it waits for, and whether anything ends: a standstill is the opposite.

Bounded on a table of any size: MOST due turns of a queue and as many that are put off, the running ones (as many as there are
slots), the last end of each queue, and its SAMPLE last ends of a day.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS, off_index
from turnstile.statements.worker_registry import ALIVE

PATIENCE_SECONDS = 300.0
"""Shortest time without an ended turn that counts as a standstill. If turns take longer: twice what 99 of 100 recent
turns took."""

MOST = 10_000
"""At most this many due turns of a queue are read, and as many that are put off: the earliest of each."""

SAMPLE = 10_000

BY_RANGE: LiteralString = "SELECT set_config('enable_seqscan', 'off', true)"
"""For the rest of its pipeline: of a small table the planner would read the whole, and pin that plan."""

# Due turns and those that are put off apart: a long backlog must not hide that all heads are put off.
_OPEN: LiteralString = f"""
SELECT t.id, t.queue, t.tenant_id, t.session_id, t.seq, t.execute_at, t.first_started_at, t.joining,
       greatest(t.queued_at, t.execute_at) AS due_since
  FROM turns t
 WHERE {INDEXED_STATUS} = 'PENDING' AND t.queue = b.queue AND coalesce(t.execute_at, t.created_at) {{when}} now()
   AND (SELECT s.halted_by FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) IS NULL
 ORDER BY coalesce(t.execute_at, t.created_at) LIMIT {MOST}
"""

# A turn is late if it has waited or run for longer than the queue's patience. One that is due waits for a slot: one is enough for
# a standstill, unless turns have begun meanwhile, as after a pause. One that has started may be slow or put off for a reason of
# its own: two are needed. How long a first attempt may run is known only from the turns that have succeeded.
PROGRESS: LiteralString = f"""
WITH usual AS MATERIALIZED (
    SELECT s.queue, percentile_cont(0.99) WITHIN GROUP (ORDER BY s.seconds) AS seconds
      FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
           SELECT t.queue, t.status, extract(epoch FROM t.finished_at - t.first_started_at) AS seconds FROM turns t
            WHERE t.queue = q.name AND t.finished_at > now() - interval '1 day' ORDER BY t.finished_at DESC LIMIT {SAMPLE}) s
     WHERE s.status = 'SUCCEEDED' GROUP BY s.queue
), bound AS MATERIALIZED (
    SELECT q.name AS queue, u.seconds AS usual, greatest({PATIENCE_SECONDS}, 2 * u.seconds) AS patience,
           make_interval(secs => greatest({PATIENCE_SECONDS}, 2 * u.seconds)) AS ago
      FROM unnest(%(queues)s::text[]) q (name) LEFT JOIN usual u ON u.queue = q.name
), ended AS MATERIALIZED (
    SELECT b.queue, e.finished_at AS at
      FROM bound b CROSS JOIN LATERAL (
           SELECT t.finished_at FROM turns t WHERE t.queue = b.queue AND t.finished_at > now() - b.ago
              AND {off_index("t.status")} IN ('SUCCEEDED', 'FAILED') ORDER BY t.finished_at DESC LIMIT 1) e
), pending AS MATERIALIZED (
    SELECT o.*, CASE WHEN o.joining IS NOT NULL THEN 'joining'
                     WHEN o.execute_at <= now() OR o.execute_at IS NULL THEN 'due'
                     WHEN o.first_started_at IS NULL THEN 'scheduled'
                     WHEN (SELECT a.outcome FROM turn_attempts a WHERE a.turn_id = o.id ORDER BY a.fence DESC LIMIT 1) = 'snoozed'
                     THEN 'snoozed' ELSE 'retrying' END AS state,
           NOT EXISTS (SELECT FROM turns e WHERE e.tenant_id = o.tenant_id AND e.session_id = o.session_id
                          AND e.status IN ('PENDING', 'RUNNING') AND e.seq < coalesce(o.seq, {2**63 - 1})) AS is_head
      FROM bound b CROSS JOIN LATERAL (({_OPEN.format(when="<=")}) UNION ALL ({_OPEN.format(when=">")})) o
), waiting AS MATERIALIZED (
    SELECT p.queue, count(*) FILTER (WHERE p.state = 'due') AS due,
           count(*) FILTER (WHERE p.state = 'due' AND p.is_head) AS ready,
           count(*) FILTER (WHERE p.state = 'snoozed') AS snoozed, count(*) FILTER (WHERE p.state = 'retrying') AS retrying,
           count(*) FILTER (WHERE p.state = 'joining') AS joining, count(*) FILTER (WHERE p.state = 'scheduled') AS scheduled,
           greatest(count(*) FILTER (WHERE p.execute_at > now()),
                    count(*) FILTER (WHERE (p.execute_at > now()) IS NOT TRUE)) >= {MOST} AS truncated,
           count(*) FILTER (WHERE p.state = 'due' AND p.is_head AND p.due_since < now() - b.ago) AS unmoved,
           count(*) FILTER (WHERE p.state <> 'joining' AND p.is_head AND p.first_started_at < now() - b.ago) AS put_off,
           max(p.first_started_at) AS begun, min(coalesce(p.first_started_at, p.due_since))
               FILTER (WHERE p.state IN ('due', 'snoozed', 'retrying') AND p.is_head) AS since
      FROM pending p JOIN bound b USING (queue) GROUP BY p.queue
), running AS MATERIALIZED (
    SELECT r.queue, count(*) AS running, extract(epoch FROM now() - min(r.started_at))::float8 AS longest,
           count(*) FILTER (WHERE r.first_started_at < now() - b.ago
                              AND (b.usual IS NOT NULL OR r.first_started_at < r.started_at - interval '1 s')) AS slow,
           max(r.first_started_at) AS begun, min(r.first_started_at) AS since
      FROM turns r JOIN bound b USING (queue) WHERE r.status = 'RUNNING' GROUP BY r.queue
)
SELECT b.queue, coalesce(w.due, 0) AS due, coalesce(w.ready, 0) AS ready, coalesce(w.snoozed, 0) AS snoozed,
       coalesce(w.retrying, 0) AS retrying, coalesce(w.joining, 0) AS joining, coalesce(w.scheduled, 0) AS scheduled,
       coalesce(w.truncated, false) AS truncated, coalesce(r.running, 0) AS running, r.longest AS longest_running_seconds,
       (SELECT coalesce(sum(w.slots), 0) FROM workers w WHERE w.queue = b.queue AND NOT w.draining AND {ALIVE})::int AS slots,
       CASE WHEN coalesce(e.at < now() - b.ago, true)
             AND NOT EXISTS (SELECT FROM paused_queues p WHERE p.queue = b.queue)
             AND (w.unmoved >= 1 AND coalesce(greatest(w.begun, r.begun) < now() - b.ago, true)
                  OR coalesce(w.put_off, 0) + coalesce(r.slow, 0) >= 2)
            THEN least(w.since, r.since) END AS still_since, now() AS read_at
  FROM bound b LEFT JOIN waiting w USING (queue) LEFT JOIN running r USING (queue) LEFT JOIN ended e USING (queue)
 ORDER BY b.queue
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One queue at one moment: its turns that have not ended."""

    queue: str
    due: int
    """They could run now, or wait for earlier turns of their sessions; `ready` are those at the heads."""
    ready: int
    snoozed: int
    retrying: int
    joining: int
    """They wait for their children."""
    scheduled: int
    truncated: bool
    """There may be more that wait than were read: these counts are lower bounds."""
    running: int
    longest_running_seconds: float | None
    slots: int
    """The slots of the workers that are alive and not draining."""
    still_since: datetime | None
    """At a standstill: since when the oldest waiting turn has waited. None: turns end, or no turn waits for long."""
    read_at: datetime

    @property
    def standstill_seconds(self) -> float:
        """0: no standstill."""
        return 0.0 if self.still_since is None else (self.read_at - self.still_since).total_seconds()


async def read_progress(database: Database, queues: Sequence[str]) -> list[Progress]:
    """What has not ended in each of these queues, ordered by name. Raises DatabaseUnavailableError."""
    _, rows = await database.fetch_pipelined([(BY_RANGE, {}), (PROGRESS, {"queues": list(queues)})])
    return [Progress(**row) for row in rows]
