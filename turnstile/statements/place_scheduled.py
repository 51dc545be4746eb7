"""Place scheduled turns: a turn with an `execute_at` gets its place in its session when it is due.

The rows are selected as in `statements.owed_messages`.
"""

from typing import LiteralString

from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.owed_messages import LEFT_OUT, ONLY
from turnstile.statements.session_head import IS_PENDING

_UNPLACED: LiteralString = f"""
         WHERE t.send_at <= now() AND t.seq IS NULL AND t.status = 'PENDING' AND t.queue = q.name AND {LEFT_OUT.format(of="t")}
"""

# A scheduled turn gets its place in the session when it is due, so that it delays no other turn before.
# Lock order: sessions, then turns. Both with SKIP LOCKED: waiting for a locked session (an open psql is enough) would block each
# round of each relay until its time-out. SKIP LOCKED applies before the LIMIT: otherwise the many due turns of a locked session
# could fill it. A later round places the skipped turns. `last_seq` is that of the locked row.
PLACE_SCHEDULED: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT d.id, d.last_seq FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
        SELECT t.id, s.last_seq FROM turns t CROSS JOIN LATERAL (
            SELECT s.last_seq FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id
             LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) s {_UNPLACED} AND {ONLY.format(of="t")}
         ORDER BY t.send_at LIMIT %(limit)s) d
), unplaced AS MATERIALIZED (
    SELECT t.*, due.last_seq FROM due CROSS JOIN LATERAL (
        SELECT t.id, t.tenant_id, t.session_id, t.execute_at FROM turns t
         WHERE {by_key("t.id", "due.id")} AND coalesce(t.seq, 0) = 0 AND {IS_PENDING} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
), place AS (
    UPDATE sessions s SET last_seq = s.last_seq + u.many, updated_at = clock_timestamp()
      FROM (SELECT tenant_id, session_id, count(*) AS many FROM unplaced GROUP BY 1, 2) u
     WHERE {by_key("s.tenant_id", "u.tenant_id")} AND s.session_id = u.session_id
)
UPDATE turns t SET seq = n.seq
  FROM (SELECT id, last_seq + row_number() OVER (PARTITION BY tenant_id, session_id ORDER BY execute_at, id) AS seq
          FROM unplaced) n
 WHERE {by_key("t.id", "n.id")}
RETURNING t.id
"""

FIND_UNPLACED: LiteralString = f"""
SELECT d.id, d.trace_id FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
        SELECT t.id, t.trace_id FROM turns t {_UNPLACED} ORDER BY t.send_at LIMIT %(limit)s) d
"""
