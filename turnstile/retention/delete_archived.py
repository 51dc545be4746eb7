"""Deletes the turns whose time in the archive is over, oldest first. A session that has no turn left goes with its last one."""

from collections.abc import Collection
from typing import LiteralString

from turnstile.archive.bounded_statement import fetch_bounded
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.retention.delete_turns import KeptFor
from turnstile.statements.delete_old_rows import AT_ONCE

# The archive of `turnstile archive` has deleted the session of a child or a compensation already.
DELETE_ARCHIVED: LiteralString = f"""
WITH aged AS MATERIALIZED (
    SELECT p.* FROM unnest(%(queues)s::text[], %(seconds)s::float8[]) q (name, seconds) CROSS JOIN LATERAL (
        SELECT a.id, a.tenant_id, a.session_id, a.ended_at FROM archived_turns a
         WHERE a.queue = q.name AND a.ended_at < now() - make_interval(secs => q.seconds)
         ORDER BY a.ended_at LIMIT {AT_ONCE} FOR UPDATE SKIP LOCKED) p
     LIMIT {AT_ONCE}
), left_with AS MATERIALIZED (
    SELECT f.tenant_id, f.session_id,
           EXISTS (SELECT FROM turns o WHERE o.tenant_id = f.tenant_id AND o.session_id = f.session_id OFFSET 0)
           OR EXISTS (SELECT FROM archived_turns o WHERE o.tenant_id = f.tenant_id AND o.session_id = f.session_id
                         AND (o.id, o.tenant_id, o.ended_at) NOT IN (SELECT a.id, a.tenant_id, a.ended_at FROM aged a) OFFSET 0)
           OR NOT EXISTS (SELECT FROM sessions s WHERE s.tenant_id = f.tenant_id AND s.session_id = f.session_id OFFSET 0)
              AS something
      FROM (SELECT DISTINCT tenant_id, session_id FROM aged) f
), emptied AS MATERIALIZED (
    SELECT s.tenant_id, s.session_id
      FROM left_with l JOIN sessions s ON {by_key("s.tenant_id", "l.tenant_id")} AND s.session_id = l.session_id
     WHERE NOT l.something AND s.halted_by IS NULL AND s.updated_at < now() - interval '1 hour'
     ORDER BY l.tenant_id, l.session_id FOR UPDATE OF s SKIP LOCKED
), gone AS (
    DELETE FROM archived_turns a USING aged g JOIN left_with l ON l.tenant_id = g.tenant_id AND l.session_id = g.session_id
     WHERE {by_key("a.id", "g.id")} AND a.tenant_id = g.tenant_id AND a.ended_at = g.ended_at
       AND (l.something OR EXISTS (SELECT FROM emptied e WHERE e.tenant_id = g.tenant_id AND e.session_id = g.session_id))
    RETURNING a.id, a.tenant_id, (a.turn ->> 'created_at')::timestamptz AS created_at
), traces_gone AS (
    DELETE FROM turn_traces r USING gone g
     WHERE {by_key("r.turn_id", "g.id")} AND r.tenant_id = g.tenant_id AND r.turn_created_at = g.created_at
), sessions_gone AS (
    DELETE FROM sessions s USING emptied e WHERE {by_key("s.tenant_id", "e.tenant_id")} AND s.session_id = e.session_id
)
SELECT count(*) AS gone FROM gone
"""


async def delete_archived(database: Database, kept: Collection[KeptFor]) -> bool:
    """Deletes the archived turns of these queues that are too old. True if there may be more. Raises DatabaseUnavailableError."""
    ages = {
        "queues": [one.queue for one in kept],
        "seconds": [one.table_seconds + one.archive_seconds for one in kept],
    }
    rows = await fetch_bounded(database, DELETE_ARCHIVED, ages)
    return bool(rows and rows[0]["gone"] == AT_ONCE)
