"""A trace as a tree: which turn caused which, in one recursive statement.

Turns are linked by span and parent span, as the API's client gave them, and a child or a compensation also by its parent. The
parent links them even if a redrive gave one of the two another trace: a redriven parent keeps the children that succeeded.
A redriven turn is part of the trace of each of its runs. Archived turns are included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from turnstile.archive.reads import EVERY_TURN
from turnstile.backends.postgres.database import Database
from turnstile.turn.status import TurnStatus

# `run`: the turns whose last run is in the trace, and those whose earlier run, before a redrive, was; no turn is both.
# A root is a run whose parent span is not in the trace: a client of the API started it.
TRACE_TREE: LiteralString = f"""
WITH RECURSIVE run AS MATERIALIZED (
    SELECT t.id, t.tenant_id, t.created_at, t.span_id, t.parent_span_id, t.parent_turn_id
      FROM {EVERY_TURN} t WHERE t.trace_id = %(trace)s
     UNION ALL
    SELECT t.id, t.tenant_id, t.created_at, e.span_id, e.parent_span_id, t.parent_turn_id
      FROM turn_traces e
      JOIN {EVERY_TURN} t ON t.id = e.turn_id AND t.tenant_id = e.tenant_id AND t.created_at = e.turn_created_at
     WHERE e.trace_id = %(trace)s
), tree AS (
    SELECT r.id, r.tenant_id, r.created_at, r.span_id, r.parent_span_id, 0 AS depth, ARRAY[r.created_at] AS place,
           ARRAY[r.id] AS seen
      FROM run r
     WHERE NOT EXISTS (SELECT FROM run p WHERE p.span_id = r.parent_span_id)
       AND NOT EXISTS (SELECT FROM run p WHERE p.id = r.parent_turn_id AND p.tenant_id = r.tenant_id)
    UNION ALL
    SELECT c.id, c.tenant_id, c.created_at, c.span_id, c.parent_span_id, tree.depth + 1, tree.place || c.created_at,
           tree.seen || c.id
      FROM tree CROSS JOIN LATERAL (
            SELECT r.id, r.tenant_id, r.span_id, r.parent_span_id, r.created_at FROM run r
             WHERE r.parent_span_id = tree.span_id OR (r.parent_turn_id = tree.id AND r.tenant_id = tree.tenant_id)
             UNION ALL
            SELECT t.id, t.tenant_id, t.span_id, t.parent_span_id, t.created_at FROM {EVERY_TURN} t
             WHERE t.parent_turn_id = tree.id AND t.tenant_id = tree.tenant_id
               AND NOT EXISTS (SELECT FROM run r WHERE (r.id, r.tenant_id, r.created_at) = (t.id, t.tenant_id, t.created_at))) c
     WHERE c.id <> ALL (tree.seen)
)
SELECT t.id, t.tenant_id, t.session_id, t.seq, t.queue, t.status, t.generation, t.attempt, tree.span_id, tree.parent_span_id,
       t.created_at, t.started_at, t.finished_at, t.kind, t.child_key, t.joining, t.join_policy, tree.depth,
       ARRAY(SELECT other.trace_id
               FROM (SELECT e.generation, e.trace_id FROM turn_traces e
                      WHERE e.turn_id = t.id AND e.tenant_id = t.tenant_id AND e.turn_created_at = t.created_at
                      UNION ALL
                     SELECT t.generation, t.trace_id) other
              WHERE other.trace_id <> %(trace)s ORDER BY other.generation) AS other_traces
  FROM tree JOIN {EVERY_TURN} t USING (id, tenant_id, created_at) ORDER BY tree.place, tree.depth, t.id
"""

TRACE_OF: LiteralString = f"""
SELECT t.trace_id FROM {EVERY_TURN} t WHERE t.id = %(id)s ORDER BY t.created_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One turn of a trace; `depth` 0 is a root."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int | None
    queue: str
    status: TurnStatus
    generation: int
    attempt: int
    span_id: str
    parent_span_id: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    kind: str
    child_key: str | None
    """The key of the parent's call that started it."""
    joining: Sequence[UUID] | None
    """The children that it waits for at present."""
    join_policy: str | None
    depth: int
    other_traces: Sequence[str]
    """The traces of its other runs, by generation: each redrive starts one. Status and times are those of its last run."""


async def find_trace(database: Database, turn_id: UUID) -> str | None:
    """The present trace of a turn (a redrive starts another); None if there is no such turn. If several turns have this id, the
    newest counts."""
    rows = await database.fetch(TRACE_OF, {"id": turn_id})
    return rows[0]["trace_id"] if rows else None


async def read_trace(database: Database, trace_id: str) -> list[Span]:
    """The turns of a trace: parents before their children, siblings oldest first."""
    rows = await database.fetch(TRACE_TREE, {"trace": trace_id})
    return [Span(**{**row, "status": TurnStatus(row["status"])}) for row in rows]
