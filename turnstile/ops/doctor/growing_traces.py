"""The statement that finds traces that keep growing: handlers that keep starting handlers."""

from typing import LiteralString

_MOST: LiteralString = "10000"
"""A trace with this many turns is reported. A turn may start 1,000 children."""

# Only of traces with open children, of which 50,000 are read at most. Each trace is counted up to the bound.
TRACE_GROWS: LiteralString = f"""
SELECT o.trace_id AS subject, g.since, 'turns: {_MOST} or more' AS detail
  FROM (SELECT DISTINCT d.trace_id FROM (
            SELECT t.trace_id FROM turns t
             WHERE t.status IN ('PENDING', 'RUNNING') AND t.seq IS NOT NULL AND t.parent_turn_id IS NOT NULL LIMIT 50000) d) o
 CROSS JOIN LATERAL (
        SELECT count(*) AS turns, min(m.created_at) AS since
          FROM (SELECT t.created_at FROM turns t WHERE t.trace_id = o.trace_id LIMIT {_MOST}) m) g
 WHERE g.turns = {_MOST} LIMIT %(limit)s
"""
