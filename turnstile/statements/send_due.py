"""What a relay asks of Postgres: one statement a verb, in the order of a round. `relay.loop` is the loop.

Each goes by a queue and the order of `send_at`, or by ids. What is known by its id is looked up one by one (LATERAL with a LIMIT,
which no planner turns round), under conditions that no partial index matches (`statements.head`): the statistics of a table that
was at rest a moment ago must not make a plan that reads all that is due.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.statements.head import IS_FAILED, IS_PENDING
from turnstile.statements.submit import QUEUE_LATENCY
from turnstile.turn.envelope import DeadLetter, OutgoingMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.message import WakeUp
from turnstile.turn.status import TurnStatus

MAX_NET_SECONDS = 3600

# The two ways in which the verbs that look for rows are asked: for what is due, up to a limit; and, where one of these rows is
# refused, for some of them by name (`relay.steps`).
_LEFT_OUT: LiteralString = "NOT {of}.id = ANY (%(left_out)s::uuid[])"
_ONLY: LiteralString = "(%(only)s::uuid[] IS NULL OR {of}.id = ANY (%(only)s::uuid[]))"

_UNPLACED: LiteralString = f"""
         WHERE t.send_at <= now() AND t.seq IS NULL AND t.status = 'PENDING' AND t.queue = q.name AND {_LEFT_OUT.format(of="t")}
"""

# A scheduled turn gets its place in the session when it falls due, so that it holds up nobody before (G14).
# Lock order: sessions, then turns. SKIP LOCKED in both, and below the limit: a session that somebody sits on, if only in a psql,
# would keep each round of each relay waiting here until its time-out, and with it all that is due to anybody; and many that are
# due in it would be all that a round sees. Its turns are placed by a later one. `last_seq` is that of the locked row.
PLACE_SCHEDULED: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT d.id, d.last_seq FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
        SELECT t.id, s.last_seq FROM turns t CROSS JOIN LATERAL (
            SELECT s.last_seq FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id
             LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) s {_UNPLACED} AND {_ONLY.format(of="t")}
         ORDER BY t.send_at LIMIT %(limit)s) d
), unplaced AS MATERIALIZED (
    SELECT t.*, due.last_seq FROM due CROSS JOIN LATERAL (
        SELECT t.id, t.tenant_id, t.session_id, t.execute_at FROM turns t
         WHERE t.id = ANY (ARRAY[due.id]) AND coalesce(t.seq, 0) = 0 AND {IS_PENDING} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
), place AS (
    UPDATE sessions s SET last_seq = s.last_seq + u.many, updated_at = clock_timestamp()
      FROM (SELECT tenant_id, session_id, count(*) AS many FROM unplaced GROUP BY 1, 2) u
     WHERE s.tenant_id = ANY (ARRAY[u.tenant_id]) AND s.session_id = ANY (ARRAY[u.session_id])
)
UPDATE turns t SET seq = n.seq
  FROM (SELECT id, last_seq + row_number() OVER (PARTITION BY tenant_id, session_id ORDER BY execute_at, id) AS seq
          FROM unplaced) n
 WHERE t.id = ANY (ARRAY[n.id])
RETURNING t.id
"""

FIND_UNPLACED: LiteralString = f"""
SELECT d.id FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
        SELECT t.id FROM turns t {_UNPLACED} ORDER BY t.send_at LIMIT %(limit)s) d
"""

# Of each line that is asked for (`relay.queues.Line`) up to its own limit: one's backlog stands in nobody else's way.
# The scan starts at a floor and is full once a minute: under a long transaction elsewhere, dead index entries pile up at the old
# end and each scan would read them.
_QUEUES: LiteralString = """
    unnest(%(queues)s::text[], %(deads)s::bool[], %(limits)s::int[], %(reaches)s::float8[]) q (name, dead, most, reach)
"""
_DUE: LiteralString = f"""
         WHERE d.send_at <= now() AND d.send_at > now() - make_interval(secs => q.reach) AND d.queue = q.name
           AND (d.status = 'FAILED') = q.dead AND NOT (d.status = 'PENDING' AND d.seq IS NULL) AND {_LEFT_OUT.format(of="d")}
"""

# A RUNNING row whose worker came back and renewed is owed nothing any more.
TAKE_DUE: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT d.id, d.send_at FROM {_QUEUES} CROSS JOIN LATERAL (
        SELECT d.id, d.send_at FROM turns d {_DUE} AND {_ONLY.format(of="d")}
         ORDER BY d.send_at LIMIT q.most FOR NO KEY UPDATE SKIP LOCKED) d
)
UPDATE turns t
   SET send_at = CASE WHEN t.status <> 'RUNNING' THEN clock_timestamp() + make_interval(secs => %(stamp)s)
                      WHEN t.lease_until < now() THEN clock_timestamp() + make_interval(
                               secs => least({MAX_NET_SECONDS}, %(resend)s * power(2, least(t.sends, 10)))) END,
       sends = t.sends + (t.status = 'RUNNING')::int
  FROM due WHERE t.id = ANY (ARRAY[due.id])
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.status, t.attempt, t.fence, t.generation, t.error_class, t.error,
          t.trace_id, t.span_id, t.send_at, due.send_at AS due_at
"""

FIND_DUE: LiteralString = f"""
SELECT d.id FROM {_QUEUES} CROSS JOIN LATERAL (SELECT d.id FROM turns d {_DUE} ORDER BY d.send_at LIMIT q.most) d
"""

# SKIP LOCKED: a cancel may hold one of these rows and want another. The row that is skipped is sent once more.
PUT_NET: LiteralString = f"""
WITH sent AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(stamps)s::timestamptz[]) x (id, stamp) CROSS JOIN LATERAL (
        SELECT t.id FROM turns t
         WHERE t.id = ANY (ARRAY[x.id]) AND t.send_at = x.stamp AND {IS_PENDING} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
)
UPDATE turns t
   SET sends = t.sends + 1,
       send_at = clock_timestamp() + make_interval(secs => least({MAX_NET_SECONDS},
                     greatest(%(net)s, 2 * {QUEUE_LATENCY.format(queue="t.queue")}) * power(2, least(t.sends, 10))))
  FROM sent WHERE t.id = ANY (ARRAY[sent.id])
"""

DEAD_LETTERED: LiteralString = f"""
WITH sent AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) x (id, generation) CROSS JOIN LATERAL (
        SELECT t.id FROM turns t
         WHERE t.id = ANY (ARRAY[x.id]) AND t.generation = x.generation AND {IS_FAILED} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
)
UPDATE turns t SET send_at = NULL, dead_lettered_at = clock_timestamp() FROM sent WHERE t.id = ANY (ARRAY[sent.id])
"""

# To when it was due, and not to now: what no relay can send grows old, and the doctor sees it.
GIVE_BACK: LiteralString = """
WITH unsent AS MATERIALIZED (
    SELECT t.id, x.due_at
      FROM unnest(%(ids)s::uuid[], %(stamps)s::timestamptz[], %(due_ats)s::timestamptz[]) x (id, stamp, due_at)
     CROSS JOIN LATERAL (
        SELECT t.id FROM turns t WHERE t.id = ANY (ARRAY[x.id]) AND t.send_at = x.stamp LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
)
UPDATE turns t SET send_at = unsent.due_at FROM unsent WHERE t.id = ANY (ARRAY[unsent.id])
"""


@dataclass(frozen=True, slots=True)
class DueRow:
    """A row that is owed a message, stamped so that no other relay sends it in this moment."""

    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    status: TurnStatus
    attempt: int
    fence: int
    generation: int
    error_class: str | None
    error: str | None
    trace_id: str
    span_id: str
    send_at: datetime | None
    """The stamp; None where nothing is owed any more."""
    due_at: datetime | None = None
    """What stood there before it."""

    @classmethod
    def of(cls, row: dict[str, Any]) -> "DueRow":
        """What TAKE_DUE says of one."""
        return cls(**{**row, "status": TurnStatus(row["status"])})

    @property
    def message(self) -> OutgoingMessage:
        """Its wake-up."""
        trace = TraceContext(self.trace_id, self.span_id)
        return OutgoingMessage(WakeUp(self.tenant_id, self.session_id, self.id), trace.traceparent)

    @property
    def dead_letter(self) -> DeadLetter:
        """Its dead letter."""
        return DeadLetter(
            message=self.message,
            error_class=self.error_class or "unknown",
            attempts=self.attempt,
            fence=self.fence,
            generation=self.generation,
        )
