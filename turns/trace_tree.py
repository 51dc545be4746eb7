"""A trace as a tree (G6): which turn came of which, in one recursive statement.

By span and parent span, as whoever called the API said it; and by the parent that a child or a compensation has. The latter
also where a redrive has given one of them another trace: a parent that was redriven keeps the children that succeeded.
Turns in the archive are part of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from turns.archived_turns import EVERY_TURN
from turns.database import Database
from turns.status import TurnStatus

# A turn is its id, its tenant and when it was made: clients choose ids, and one in the archive is free again.
# A root is a turn whose parent span is not a turn of the trace: it was begun by whoever called the API.
TRACE_TREE: LiteralString = f"""
WITH RECURSIVE tree AS (
    SELECT t.id, t.tenant_id, t.created_at, t.span_id, 0 AS depth, ARRAY[t.created_at] AS place, ARRAY[t.id] AS seen
      FROM {EVERY_TURN} t
     WHERE t.trace_id = %(trace)s
       AND NOT EXISTS (SELECT FROM {EVERY_TURN} p WHERE p.trace_id = t.trace_id AND p.span_id = t.parent_span_id)
       AND NOT EXISTS (SELECT FROM {EVERY_TURN} p
                         WHERE p.id = t.parent_turn_id AND p.tenant_id = t.tenant_id AND p.trace_id = t.trace_id)
    UNION ALL
    SELECT c.id, c.tenant_id, c.created_at, c.span_id, tree.depth + 1, tree.place || c.created_at, tree.seen || c.id
      FROM tree CROSS JOIN LATERAL (
            SELECT t.id, t.tenant_id, t.span_id, t.created_at FROM {EVERY_TURN} t
             WHERE t.trace_id = %(trace)s AND t.parent_span_id = tree.span_id
             UNION
            SELECT t.id, t.tenant_id, t.span_id, t.created_at FROM {EVERY_TURN} t
             WHERE t.parent_turn_id = tree.id AND t.tenant_id = tree.tenant_id) c
     WHERE c.id <> ALL (tree.seen)
)
SELECT t.id, t.tenant_id, t.session_id, t.seq, t.queue, t.status, t.generation, t.attempt, t.span_id, t.parent_span_id,
       t.created_at, t.started_at, t.finished_at, t.kind, t.child_key, t.joining, t.join_policy, tree.depth
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
    """By which call its parent started it."""
    joining: Sequence[UUID] | None
    """The children that it waits for, while it does."""
    join_policy: str | None
    depth: int


async def find_trace(database: Database, turn_id: UUID) -> str | None:
    """The trace that a turn is part of at present (a redrive begins another); of several turns of this id the last that was
    made. None if there is none."""
    rows = await database.fetch(TRACE_OF, {"id": turn_id})
    return rows[0]["trace_id"] if rows else None


async def read_trace(database: Database, trace_id: str) -> list[Span]:
    """The turns of a trace, parents before their children, siblings by age."""
    rows = await database.fetch(TRACE_TREE, {"trace": trace_id})
    return [Span(**{**row, "status": TurnStatus(row["status"])}) for row in rows]
