"""The relay's statements that send, in the order of a round. `relay.loop` is the loop.

A scheduled turn gets its place in the session first (`statements.place_scheduled`).

Each selects by queue in the order of `send_at`, or by ids. Rows with a known id are looked up one by one: LATERAL with
a LIMIT keeps the order, and no partial index matches the conditions (`statements.session_head`). Otherwise the
statistics of a table that was idle a moment ago could lead to a plan that reads all due rows.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.session_head import IS_FAILED, IS_PENDING
from turnstile.statements.submit import QUEUE_LATENCY
from turnstile.turn.envelope import DeadLetter, OutgoingMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import WakeUp

MAX_RESEND_SECONDS = 3600

# The statements that look for rows are called in two ways: for due rows, up to a limit; and, if Postgres refuses one of these
# rows, for some of them by id (`relay.fault_isolation`).
LEFT_OUT: LiteralString = "NOT {of}.id = ANY (%(left_out)s::uuid[])"
ONLY: LiteralString = "(%(only)s::uuid[] IS NULL OR {of}.id = ANY (%(only)s::uuid[]))"

# Each line (`relay.queue_selection.Line`) has a limit of its own, so that its backlog does not delay the others.
# The scan goes back only as far as `reach`, and all the way once a minute: under a long transaction elsewhere, dead index entries
# pile up at the old end, and each scan would read them.
_QUEUES: LiteralString = """
    unnest(%(queues)s::text[], %(deads)s::bool[], %(limits)s::int[], %(reaches)s::float8[]) q (name, dead, most, reach)
"""
_DUE: LiteralString = f"""
         WHERE d.send_at <= now() AND d.send_at > now() - make_interval(secs => q.reach) AND d.queue = q.name
           AND (d.status = 'FAILED') = q.dead AND NOT (d.status = 'PENDING' AND d.seq IS NULL) AND {LEFT_OUT.format(of="d")}
"""

# A RUNNING row whose worker came back and renewed its lease is owed no message any more.
TAKE_DUE: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT d.id, d.send_at FROM {_QUEUES} CROSS JOIN LATERAL (
        SELECT d.id, d.send_at FROM turns d {_DUE} AND {ONLY.format(of="d")}
         ORDER BY d.send_at LIMIT q.most FOR NO KEY UPDATE SKIP LOCKED) d
)
UPDATE turns t
   SET send_at = CASE WHEN t.status <> 'RUNNING' THEN clock_timestamp() + make_interval(secs => %(stamp)s)
                      WHEN t.lease_until < now() THEN clock_timestamp() + make_interval(
                               secs => least({MAX_RESEND_SECONDS}, %(resend)s * power(2, least(t.sends, 10)))) END,
       sends = t.sends + (t.status = 'RUNNING')::int
  FROM due WHERE {by_key("t.id", "due.id")}
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.status, t.attempt, t.fence, t.generation, t.error_class, t.error,
          t.trace_id, t.span_id, t.send_at, due.send_at AS due_at
"""

FIND_DUE: LiteralString = f"""
SELECT d.id, d.trace_id FROM {_QUEUES} CROSS JOIN LATERAL (
    SELECT d.id, d.trace_id FROM turns d {_DUE} ORDER BY d.send_at LIMIT q.most) d
"""

# An expression, so that no index matches it: a plan made while few turns were owed a message would read all that are owed one.
_STAMPED: LiteralString = "coalesce(t.send_at, 'infinity') = x.stamp"

# SKIP LOCKED: a cancel may have locked one of these rows and wait for another. The message of a skipped row is sent once more.
SET_RESEND_DEADLINE: LiteralString = f"""
WITH sent AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(stamps)s::timestamptz[]) x (id, stamp) CROSS JOIN LATERAL (
        SELECT t.id FROM turns t
         WHERE {by_key("t.id", "x.id")} AND {_STAMPED} AND {IS_PENDING} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
)
UPDATE turns t
   SET sends = t.sends + 1,
       send_at = clock_timestamp() + make_interval(secs => least({MAX_RESEND_SECONDS},
                     greatest(%(resend_after)s, 2 * {QUEUE_LATENCY.format(queue="t.queue")}) * power(2, least(t.sends, 10))))
  FROM sent WHERE {by_key("t.id", "sent.id")}
"""

DEAD_LETTERED: LiteralString = f"""
WITH sent AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) x (id, generation) CROSS JOIN LATERAL (
        SELECT t.id FROM turns t
         WHERE {by_key("t.id", "x.id")} AND t.generation = x.generation AND {IS_FAILED} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
)
UPDATE turns t SET send_at = NULL, dead_lettered_at = clock_timestamp() FROM sent WHERE {by_key("t.id", "sent.id")}
"""

# Back to when it was due, not to now: the age of a message that no relay can send must grow, so that the doctor reports it.
GIVE_BACK: LiteralString = f"""
WITH unsent AS MATERIALIZED (
    SELECT t.id, x.due_at
      FROM unnest(%(ids)s::uuid[], %(stamps)s::timestamptz[], %(due_ats)s::timestamptz[]) x (id, stamp, due_at)
     CROSS JOIN LATERAL (
        SELECT t.id FROM turns t WHERE {by_key("t.id", "x.id")} AND {_STAMPED} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
)
UPDATE turns t SET send_at = unsent.due_at FROM unsent WHERE {by_key("t.id", "unsent.id")}
"""


@dataclass(frozen=True, slots=True)
class DueRow:
    """A row that is owed a message. Its new `send_at` (the stamp) keeps other relays from sending it meanwhile."""

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
    """The stamp; None if no message is owed any more."""
    due_at: datetime | None = None
    """`send_at` before the stamp."""

    @classmethod
    def of(cls, row: dict[str, Any]) -> "DueRow":
        """From a row of TAKE_DUE."""
        return cls(**{**row, "status": TurnStatus(row["status"])})

    @property
    def message(self) -> OutgoingMessage:
        trace = TraceContext(self.trace_id, self.span_id)
        return OutgoingMessage(WakeUp(self.tenant_id, self.session_id, self.id), trace.traceparent)

    @property
    def dead_letter(self) -> DeadLetter:
        return DeadLetter(
            message=self.message,
            error_class=self.error_class or "unknown",
            attempts=self.attempt,
            fence=self.fence,
            generation=self.generation,
        )
