"""Whether a tenant waits behind another tenant's backlog.

If one tenant occupies all slots of a worker, the worker learns of other tenants only by their messages. On a queue that delivers
messages in order, these come after the whole backlog of the first tenant. The table shows the other tenants at once.
"""

from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.statements.session_head import DUE, OPEN_HEAD

MOST_TENANTS = 100
MOST_TURNS = 100
"""Per tenant. A turn beyond either bound, in a table of many queues, is seen only when its message arrives."""

_OPEN: LiteralString = "t.status IN ('PENDING', 'RUNNING') AND t.seq IS NOT NULL"

# Skips from tenant to tenant in the index `turns_open` instead of reading its rows: the known tenant may have a million.
FIND_WAITING_TENANT: LiteralString = f"""
WITH RECURSIVE tenants (tenant_id, place) AS (
    (SELECT t.tenant_id, 1 FROM turns t WHERE {_OPEN} ORDER BY t.tenant_id LIMIT 1)
     UNION ALL
    SELECT following.tenant_id, tenants.place + 1
      FROM tenants CROSS JOIN LATERAL (
          SELECT t.tenant_id FROM turns t WHERE {_OPEN} AND t.tenant_id > tenants.tenant_id
           ORDER BY t.tenant_id LIMIT 1) following
     WHERE tenants.place < {MOST_TENANTS}
)
SELECT tenants.tenant_id FROM tenants
 WHERE tenants.tenant_id <> %(tenant)s
   AND EXISTS (
       SELECT FROM (
           SELECT t.id, t.tenant_id, t.session_id, t.queue, t.status, t.execute_at FROM turns t
            WHERE t.tenant_id = tenants.tenant_id AND {_OPEN} ORDER BY t.session_id, t.seq LIMIT {MOST_TURNS}) t
        WHERE t.queue = %(queue)s AND {DUE}
          -- A turn that waits for its own session, or for an operator, does not wait because of the backlog.
          AND t.id = (SELECT head.id FROM ({OPEN_HEAD.format(of="t")}) head)
          AND (SELECT s.halted_by FROM sessions s
                WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id) IS NULL)
 LIMIT 1
"""


async def find_waiting_tenant(database: Database, queue: str, tenant_id: str) -> str | None:
    """A tenant other than `tenant_id` with a turn of the queue that could be claimed now. Raises DatabaseUnavailableError."""
    rows = await database.fetch(FIND_WAITING_TENANT, {"queue": queue, "tenant": tenant_id})
    return rows[0]["tenant_id"] if rows else None
