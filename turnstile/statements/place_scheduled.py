"""Place turns that have no place yet: a scheduled turn gets its `seq` when it is due, and a turn that was submitted
in its caller's own transaction gets it after the commit.

The rows are selected as in `statements.owed_messages`.
"""

from typing import LiteralString

from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.owed_messages import LEFT_OUT, ONLY
from turnstile.statements.session_head import IS_PENDING

_UNPLACED: LiteralString = f"""
         WHERE t.send_at <= now() AND t.seq IS NULL AND t.status = 'PENDING' AND t.queue = q.name AND {LEFT_OUT.format(of="t")}
"""

# A turn gets its place in the session when it is due, so that it delays no other turn before.
# Lock order: sessions, then turns. Both with SKIP LOCKED: waiting for a locked session (an open psql is enough) would block each
# round of each relay until its time-out. SKIP LOCKED applies before the LIMIT: otherwise the many due turns of a locked session
# could fill it. A later round places the skipped turns. `last_seq` is that of the locked row.
#
# A turn that was submitted in its caller's transaction may be the first of its session: there is no row, and no `last_seq`. It
# comes here at once, also if it is scheduled: it waits for its time from here on.
# OFFSET: each session is looked up, and never are all of them read first.
PLACE_SCHEDULED: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT d.id, d.last_seq FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
        SELECT t.id, s.last_seq FROM turns t LEFT JOIN LATERAL (
            SELECT s.last_seq FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id
             LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) s ON true {_UNPLACED} AND {ONLY.format(of="t")}
           AND (s.last_seq IS NOT NULL OR NOT EXISTS (
                SELECT FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id OFFSET 0))
         ORDER BY t.send_at LIMIT %(limit)s) d
), unplaced AS MATERIALIZED (
    SELECT t.*, due.last_seq FROM due CROSS JOIN LATERAL (
        SELECT t.id, t.tenant_id, t.session_id, t.execute_at, t.created_at, t.send_at,
               coalesce(t.execute_at <= now(), true) AS in_line FROM turns t
         WHERE {by_key("t.id", "due.id")} AND coalesce(t.seq, 0) = 0 AND {IS_PENDING} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) t
), made AS (
    -- Nothing if a submit has made the row meanwhile: the next round places these turns.
    INSERT INTO sessions (tenant_id, session_id, last_seq)
    SELECT tenant_id, session_id, count(*) FILTER (WHERE in_line) FROM unplaced WHERE last_seq IS NULL
     GROUP BY 1, 2 ORDER BY 1, 2 ON CONFLICT DO NOTHING RETURNING tenant_id, session_id
), place AS (
    UPDATE sessions s SET last_seq = s.last_seq + u.many, updated_at = clock_timestamp()
      FROM (SELECT tenant_id, session_id, count(*) FILTER (WHERE in_line) AS many
              FROM unplaced WHERE last_seq IS NOT NULL GROUP BY 1, 2) u
     WHERE {by_key("s.tenant_id", "u.tenant_id")} AND s.session_id = u.session_id
)
UPDATE turns t SET seq = n.seq, send_at = n.send_at
  FROM (SELECT id, CASE WHEN in_line THEN coalesce(last_seq, 0) + row_number() OVER line END AS seq,
               CASE WHEN in_line THEN send_at ELSE execute_at END AS send_at
          FROM unplaced u
         WHERE last_seq IS NOT NULL OR (u.tenant_id, u.session_id) IN (SELECT m.tenant_id, m.session_id FROM made m)
        WINDOW line AS (PARTITION BY tenant_id, session_id, in_line ORDER BY coalesce(execute_at, created_at), id)) n
 WHERE {by_key("t.id", "n.id")}
RETURNING t.id
"""

FIND_UNPLACED: LiteralString = f"""
SELECT d.id, d.trace_id FROM unnest(%(queues)s::text[]) q (name) CROSS JOIN LATERAL (
        SELECT t.id, t.trace_id FROM turns t {_UNPLACED} ORDER BY t.send_at LIMIT %(limit)s) d
"""
