"""The attempt before another one, for the links of traces.

An attempt of an earlier generation had the trace that its redrive replaced. One look-up by primary key a turn; it reads the
attempts of that turn.
"""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.turn.identifiers import TraceContext

READ_EARLIER_ATTEMPTS: LiteralString = f"""
SELECT w.id, w.fence, a.fence AS earlier_fence,
       coalesce(e.trace_id, t.trace_id) AS trace_id, coalesce(e.span_id, t.span_id) AS span_id
  FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[]) w (id, fence)
  JOIN turns t ON {by_key("t.id", "w.id")}
 CROSS JOIN LATERAL (
       SELECT a.fence, a.generation FROM turn_attempts a
        WHERE a.turn_id = w.id AND a.fence < w.fence ORDER BY a.fence DESC LIMIT 1) a
  LEFT JOIN turn_traces e
    ON e.turn_id = w.id AND e.tenant_id = t.tenant_id AND e.turn_created_at = t.created_at AND e.generation = a.generation
"""


async def read_earlier_attempts(database: Database, attempts: Sequence[tuple[UUID, int]]) -> list[TraceContext | None]:
    """For each (turn id, fence): the span of the turn's attempt before that fence; None if there was none."""
    parameters = {"ids": [turn_id for turn_id, _ in attempts], "fences": [fence for _, fence in attempts]}
    found = {
        (row["id"], row["fence"]): TraceContext(row["trace_id"], row["span_id"]).attempt(row["earlier_fence"])
        for row in await database.fetch(READ_EARLIER_ATTEMPTS, parameters)
    }
    return [found.get(attempt) for attempt in attempts]
