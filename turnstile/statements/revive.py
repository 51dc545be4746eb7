"""Revive, the row change of a redrive: a FAILED turn goes back to work.

A compare-and-set on the row: FAILED of generation g becomes PENDING of generation g + 1, once, however many redrives run
at the same time. The turn gets new budgets, a new trace and a place at the end of its session: the conversation's later
turns stay as they are. `ctx.idempotency_key` does not change. The trace of the earlier run is kept (`KEEP_TRACE`).

The order within a session is kept. One statement numbers its turns by their old `seq` (`numbered`), behind `last_seq`, which it
raises under the session's lock. A redrive of several statements is given the turns of each session in the order of their `seq`
(`ops.dead_letters.redrive`), so a later statement's turns come behind those of an earlier one.

Three kinds of turns are not redriven: one that halts its session, because it keeps its place (`turnstile retry` and `skip` are
its ways out); a child that its redriven parent started again; and a turn whose compensation has not ended.

A FAILED compensation may itself be redriven while its turn is FAILED. If a batch has both, only the compensation is redriven: it
undoes what the turn would do. Two redrives can't see each other's uncommitted rows, so each locks the other's row as well. The
submit that starts the call of a lost child again does the same (`statements.submit`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.statements.compensate import IS_BEING_COMPENSATED, IS_OVERTAKEN
from turnstile.statements.redrive_audit import RECORD_MOVE
from turnstile.statements.session_head import IS_FAILED
from turnstile.statements.start_children import HAS_SUCCESSOR
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.wire_format import WakeUp

DROPPED: LiteralString = "DROPPED"
"""Reported instead of FAILED for a turn that an operator has given up: its dead letter is obsolete. Not a status of the table."""

REPLACED: LiteralString = "REPLACED"
"""Reported instead of FAILED for a child that has a successor: it is never redriven. Not a status of the table."""

NEW_RUN: LiteralString = """status = 'PENDING', generation = t.generation + 1, attempt = 0, failures = 0, crashes = 0, sends = 0,
       execute_at = clock_timestamp(), queued_at = clock_timestamp(), first_started_at = NULL, started_at = NULL,
       finished_at = NULL, error_class = NULL, error = NULL,
       dead_lettered_at = NULL, dropped_at = NULL, dropped_by = NULL, cancel_requested_at = NULL, cancel_reason = NULL,
       parent_span_id = NULL"""
"""For the SET of a statement that puts a FAILED turn back to work: new budgets and a new generation. `send_at`, `expires_at` and
the trace come from the caller."""

EARLIER_TRACE: LiteralString = """t.created_at AS turn_created_at, t.generation AS earlier_generation,
       t.trace_id AS earlier_trace_id, t.span_id AS earlier_span_id, t.parent_span_id AS earlier_parent_span_id"""
"""What KEEP_TRACE records. A statement that gives a turn another trace reads it first, of the locked row: only PostgreSQL 18 and
later have RETURNING of old values."""

KEPT_TRACE: LiteralString = (
    "n.turn_created_at, n.earlier_generation, n.earlier_trace_id, n.earlier_span_id, n.earlier_parent_span_id"
)
"""For the RETURNING of that statement, whose FROM has the rows with EARLIER_TRACE as `n`."""

# Logs, models and clients know the earlier run by its trace. `turn_created_at` is needed because an id that a client chose is
# free again once its turn is in the archive.
KEEP_TRACE: LiteralString = """
    INSERT INTO turn_traces (tenant_id, turn_id, turn_created_at, generation, trace_id, span_id, parent_span_id)
    SELECT tenant_id, id, turn_created_at, earlier_generation, earlier_trace_id, earlier_span_id, earlier_parent_span_id
      FROM revived
"""
"""Keeps the trace and the span of the earlier run, so that they still find the turn. `revived`: the rows of an UPDATE with
KEPT_TRACE."""

LOCK_FAILED: LiteralString = f"""
WITH kin AS MATERIALIZED (
    SELECT c.id, c.tenant_id, NULL AS session_id
      FROM unnest(%(ids)s::uuid[]) w (id) JOIN turns t ON {by_key("t.id", "w.id")} AND {IS_FAILED}
      CROSS JOIN LATERAL (
           SELECT c.id, c.tenant_id FROM turns c
            WHERE c.parent_turn_id = t.id AND c.kind = 'compensation' AND {off_index("c.tenant_id")} = t.tenant_id OFFSET 0) c
     UNION
    SELECT p.id, p.tenant_id, p.session_id
      FROM unnest(%(ids)s::uuid[]) w (id) JOIN turns t ON {by_key("t.id", "w.id")} AND {IS_FAILED}
      CROSS JOIN LATERAL (
           SELECT p.id, p.tenant_id, p.session_id FROM turns p
            WHERE p.id = t.parent_turn_id AND t.kind = 'compensation' AND {off_index("p.tenant_id")} = t.tenant_id OFFSET 0) p
     UNION
    SELECT w.id, t.tenant_id, t.session_id
      FROM unnest(%(ids)s::uuid[]) w (id) JOIN turns t ON {by_key("t.id", "w.id")} AND {IS_FAILED}
), sessions_locked AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id FROM (SELECT DISTINCT tenant_id, session_id FROM kin) k
      JOIN sessions s ON {by_key("s.tenant_id", "k.tenant_id")} AND s.session_id = k.session_id
     ORDER BY k.tenant_id, k.session_id FOR NO KEY UPDATE OF s
)
SELECT t.id FROM (SELECT DISTINCT id FROM kin) k JOIN turns t ON {by_key("t.id", "k.id")}
 WHERE (SELECT count(*) FROM sessions_locked) > 0
 ORDER BY k.id FOR NO KEY UPDATE OF t
"""
"""Before REVIVE, whose snapshot then has what others did to these turns, their compensations and their calls."""

REVIVE: LiteralString = f"""
WITH failed AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.session_id, t.seq, t.kind, t.parent_turn_id, w.trace_id, w.span_id, w.expires_in,
       {EARLIER_TRACE}
      FROM unnest(%(ids)s::uuid[], %(generations)s::int[], %(traces)s::text[], %(spans)s::text[],
                  %(expires)s::float8[]) w (id, generation, trace_id, span_id, expires_in)
      JOIN turns t ON {by_key("t.id", "w.id")}
      JOIN sessions s ON {by_key("s.tenant_id", "t.tenant_id")} AND s.session_id = t.session_id
     WHERE {IS_FAILED} AND t.generation = w.generation AND s.halted_by IS DISTINCT FROM t.id
       AND NOT {HAS_SUCCESSOR} AND NOT {IS_BEING_COMPENSATED} AND NOT {IS_OVERTAKEN}
       AND (t.dropped_at IS NULL OR %(dropped)s)
), going AS MATERIALIZED (
    SELECT f.* FROM failed f
     WHERE NOT EXISTS (SELECT FROM failed c WHERE c.parent_turn_id = f.id AND c.kind = 'compensation')
), place AS (
    UPDATE sessions s SET last_seq = s.last_seq + f.many, updated_at = clock_timestamp()
      FROM (SELECT tenant_id, session_id, count(*) AS many FROM going GROUP BY 1, 2) f
     WHERE {by_key("s.tenant_id", "f.tenant_id")} AND s.session_id = f.session_id
    RETURNING s.tenant_id, s.session_id, s.last_seq - f.many AS before
), numbered AS MATERIALIZED (
    SELECT f.*, p.before + row_number() OVER (PARTITION BY tenant_id, session_id ORDER BY f.seq) AS new_seq
      FROM going f JOIN place p USING (tenant_id, session_id)
), revived AS (
UPDATE turns t
   SET {NEW_RUN}, seq = n.new_seq, send_at = clock_timestamp() + make_interval(secs => %(resend_after)s),
       expires_at = clock_timestamp() + make_interval(secs => n.expires_in), trace_id = n.trace_id, span_id = n.span_id
  FROM numbered n WHERE {by_key("t.id", "n.id")} AND {IS_FAILED}
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.trace_id, t.span_id, {KEPT_TRACE}
), kept AS ({KEEP_TRACE})
SELECT id, tenant_id, session_id, queue, trace_id, span_id FROM revived
"""

# For the rest of its pipeline.
BOUND_WAIT: LiteralString = "SELECT set_config('lock_timeout', %(wait)s, true)"

READ_GENERATIONS: LiteralString = f"""
SELECT t.id, t.generation,
       CASE WHEN {IS_FAILED} AND {HAS_SUCCESSOR} THEN '{REPLACED}'
            WHEN {IS_FAILED} AND t.dropped_at IS NOT NULL THEN '{DROPPED}' ELSE t.status END AS status
  FROM turns t WHERE t.id = ANY (%(ids)s::uuid[])
"""

READ_OWNER: LiteralString = """
SELECT t.tenant_id, t.session_id, t.queue FROM turns t WHERE t.id = %(id)s::uuid
"""

FIND_COMPENSATED: LiteralString = f"""
SELECT t.id FROM turns t
 WHERE t.id = ANY (%(ids)s::uuid[]) AND {IS_FAILED} AND ({IS_BEING_COMPENSATED} OR {IS_OVERTAKEN} OR EXISTS (
       SELECT FROM turns c WHERE c.id = ANY (%(ids)s::uuid[]) AND c.parent_turn_id = t.id
                             AND {off_index("c.tenant_id")} = t.tenant_id AND c.kind = 'compensation'
                             AND {off_index("c.status")} = 'FAILED' OFFSET 0))
"""


@dataclass(frozen=True, slots=True)
class Revived:
    """A turn that went back to work, and the wake-up to send for it."""

    queue: str
    message: OutgoingMessage


async def revive(
    database: Database,
    failed: Sequence[tuple[UUID, int]],
    traces: Sequence[TraceContext],
    *,
    expires_in_seconds: Sequence[float],
    resend_seconds: float,
) -> list[Revived]:
    """Makes the (turn id, generation) pairs that are FAILED in that generation PENDING, and returns them.

    The caller sends the wake-ups; the relay sends those that are missing after `resend_seconds`.
    """
    parameters = _revive_parameters(failed, traces, expires_in_seconds, resend_seconds, dropped=True)
    *_, rows = await database.fetch_pipelined([(LOCK_FAILED, parameters), (REVIVE, parameters)])
    return [Revived(row["queue"], OutgoingMessage.about(row)) for row in rows]


async def revive_by_letter(
    database: Database,
    failed: tuple[UUID, int],
    trace: TraceContext,
    *,
    message_id: str,
    expires_in_seconds: float,
    resend_seconds: float,
    wait_seconds: float,
) -> bool:
    """The same for one turn, whose dead letter came back to its queue; records it. False also if an operator has given the turn
    up: only an operator's own redrive brings it back.

    Raises RowLockedError if another transaction has one of the rows locked for `wait_seconds`.
    """
    parameters = _revive_parameters([failed], [trace], [expires_in_seconds], resend_seconds, dropped=False)
    record = {
        "id": failed[0],
        "generation": failed[1],
        "trace": trace.trace_id,
        "requested_by": f"message {message_id}",
    }
    _, _, rows, _ = await database.fetch_pipelined(
        [
            (BOUND_WAIT, {"wait": f"{wait_seconds * 1000:.0f}ms"}),
            (LOCK_FAILED, parameters),
            (REVIVE, parameters),
            (RECORD_MOVE, record),
        ]
    )
    return bool(rows)


def _revive_parameters(
    failed: Sequence[tuple[UUID, int]],
    traces: Sequence[TraceContext],
    expires_in_seconds: Sequence[float],
    resend_seconds: float,
    *,
    dropped: bool,
) -> dict[str, object]:
    return {
        "ids": [turn_id for turn_id, _ in failed],
        "generations": [generation for _, generation in failed],
        "traces": [trace.trace_id for trace in traces],
        "spans": [trace.span_id for trace in traces],
        "expires": [float(seconds) for seconds in expires_in_seconds],
        "resend_after": resend_seconds,
        "dropped": dropped,
    }


async def is_of_another(database: Database, wake_up: WakeUp, queue: str) -> bool:
    """Whether the turn that a message names is of another tenant, session or queue than the message.

    To be checked before a message revives a turn: a client that may send to one queue can name any turn in the table. A turn's
    tenant, session and queue never change, so the result stays valid. False if there is no such turn.
    """
    rows = await database.fetch(READ_OWNER, {"id": wake_up.turn_id})
    own = (wake_up.tenant_id, wake_up.session_id, queue)
    return any((row["tenant_id"], row["session_id"], row["queue"]) != own for row in rows)


async def read_generations(database: Database, turn_ids: Sequence[UUID]) -> dict[UUID, tuple[int, str]]:
    """Generation and status (or REPLACED, DROPPED) of turns: they show which dead letters are outdated."""
    rows = await database.fetch(READ_GENERATIONS, {"ids": list(turn_ids)})
    return {row["id"]: (row["generation"], row["status"]) for row in rows}


async def find_compensated(database: Database, turn_ids: Sequence[UUID]) -> set[UUID]:
    """Which of these FAILED turns a redrive of all of them would leave out: turns with a compensation that has not ended or is
    among them, and compensations whose turn is no longer FAILED."""
    return {row["id"] for row in await database.fetch(FIND_COMPENSATED, {"ids": list(turn_ids)})}
