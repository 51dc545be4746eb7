"""How many open turns tenants and sessions have: PENDING and RUNNING ones, with the scheduled ones."""

from collections.abc import Sequence
from typing import LiteralString

from turnstile.backends.postgres.database import Database

# In the order of the index `turns_open`, which has open turns alone, so that the planner takes it: a tenant may have a million
# ended turns. A scheduled turn has no `seq`, and an index of its own.
_COUNT: LiteralString = """
SELECT w.ord, (SELECT count(*) FROM (
                  SELECT FROM turns o WHERE o.tenant_id = w.tenant_id {of_session}
                     AND o.seq IS NOT NULL AND o.status IN ('PENDING', 'RUNNING')
                   ORDER BY o.session_id, o.seq LIMIT %(most)s) in_line)
            + (SELECT count(*) FROM (
                  SELECT FROM turns o WHERE o.tenant_id = w.tenant_id {of_session}
                     AND o.seq IS NULL AND (o.status || '') = 'PENDING'
                   ORDER BY o.session_id LIMIT %(most)s) scheduled) AS open
  FROM {given} ORDER BY w.ord
"""
COUNT_OF_TENANTS: LiteralString = _COUNT.format(
    of_session="", given="unnest(%(ords)s::int[], %(tenants)s::text[]) w (ord, tenant_id)"
)
COUNT_OF_SESSIONS: LiteralString = _COUNT.format(
    of_session="AND o.session_id = w.session_id",
    given="unnest(%(ords)s::int[], %(tenants)s::text[], %(sessions)s::text[]) w (ord, tenant_id, session_id)",
)


async def count_of_tenants(database: Database, most: int, tenants: Sequence[str]) -> list[int]:
    """The open turns of each tenant; `most` or more if it has so many."""
    given = {"ords": list(range(len(tenants))), "tenants": list(tenants), "most": most}
    return [row["open"] for row in await database.fetch(COUNT_OF_TENANTS, given)]


async def count_of_sessions(database: Database, most: int, sessions: Sequence[tuple[str, str]]) -> list[int]:
    """The same for sessions, each with its tenant."""
    given = {
        "ords": list(range(len(sessions))),
        "tenants": [tenant for tenant, _ in sessions],
        "sessions": [session for _, session in sessions],
        "most": most,
    }
    return [row["open"] for row in await database.fetch(COUNT_OF_SESSIONS, given)]
