"""Looks for what is left of a session or a tenant that was erased. Changes nothing."""

from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.redis_client import RedisClient
from turnstile.statements.browser_tokens import LIFETIME_SECONDS

# What was submitted after the erasure is not left of what was erased. For a tenant some of these read a whole table.
LEFT: LiteralString = f"""
WITH since AS MATERIALIZED (
    SELECT coalesce(max(e.requested_at), now()) AS at FROM erasures e
     WHERE e.tenant_id = %(tenant)s AND (e.session_id IS NULL OR e.session_id = %(session)s) AND e.finished_at IS NOT NULL
)
SELECT (SELECT count(*) FROM turns t WHERE t.tenant_id = %(tenant)s AND t.session_id = coalesce(%(session)s, t.session_id)
                                       AND t.created_at < since.at) AS turns,
       (SELECT count(*) FROM archived_turns a WHERE a.tenant_id = %(tenant)s
                                                AND a.session_id = coalesce(%(session)s, a.session_id)) AS archived_turns,
       (SELECT count(*) FROM memory_items m WHERE m.tenant_id = %(tenant)s AND m.session_id = coalesce(%(session)s, m.session_id)
                                              AND m.created_at < since.at) AS memory_items,
       (SELECT count(*) FROM sessions s
         WHERE s.tenant_id = %(tenant)s AND s.session_id = coalesce(%(session)s, s.session_id) AND s.created_at < since.at
           AND NOT EXISTS (SELECT FROM turns t WHERE t.tenant_id = s.tenant_id AND t.session_id = s.session_id
                              AND t.created_at >= since.at)) AS sessions,
       (SELECT count(*) FROM webhooks w
         WHERE %(session)s::text IS NULL AND w.tenant_id = %(tenant)s AND w.created_at < since.at) AS webhooks,
       (SELECT count(*) FROM turn_traces r
         WHERE %(session)s::text IS NULL AND r.tenant_id = %(tenant)s AND r.turn_created_at < since.at) AS turn_traces,
       (SELECT count(*) FROM api_keys k
         WHERE %(session)s::text IS NULL AND k.tenant_id = %(tenant)s AND k.created_at < since.at) AS api_keys,
       (SELECT count(*) FROM browser_tokens b
         WHERE %(session)s::text IS NULL AND b.tenant_id = %(tenant)s
           AND b.expires_at < since.at + interval '{LIFETIME_SECONDS} s') AS browser_tokens,
       (SELECT count(*) FROM erasures e
         WHERE e.tenant_id = %(tenant)s AND (%(session)s::text IS NULL OR e.session_id IS NULL OR e.session_id = %(session)s)
           AND e.finished_at IS NULL) AS erasures_under_way
  FROM since
"""


async def count_rows_left(database: Database, tenant_id: str, session_id: str | None) -> dict[str, int]:
    """How many rows are left in each table that has any. Raises DatabaseUnavailableError."""
    [row] = await database.fetch(LEFT, {"tenant": tenant_id, "session": session_id})
    return {name: int(many) for name, many in row.items() if many}


async def count_keys_left(redis: RedisClient, prefix: str, tenant_id: str, session_id: str | None) -> int:
    """How many keys Redis has of histories, memories and events, also of sessions that no row names any more.

    Goes through all keys in small steps, as SCAN does. Raises RedisError or OSError.
    """
    whose = f"{{{tenant_id}/{session_id or '*'}}}"
    found = 0
    for pattern in (f"{prefix}history:session:{whose}", f"{prefix}memory:{whose}:*", f"{prefix}events:turn:{whose}:*"):
        async for _ in redis.scan(pattern):
            found += 1
    return found
