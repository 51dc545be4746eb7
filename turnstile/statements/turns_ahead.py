"""Turns ahead: they wait with a head start (`priority_seconds`), and count as submitted at `counts_from`.

Nothing overtakes inside SQS. A worker whose messages have waited for some time looks here, as it does for lost turns, and takes
those that count as older than the turns whose messages it receives now (`worker.takeover`). So a turn is overtaken only by turns
that were submitted less than MAX_PRIORITY_SECONDS after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS
from turnstile.statements.session_head import DUE, OPEN_HEAD

MOST_LOOKED_AT = 1000
"""How many waiting turns with a head start a look reads. Without it, each look would read all turns of a long session."""

# Only heads, of sessions that are not halted: the order in a session stays. A turn that has crashed a worker is left to takeover.
FIND_AHEAD: LiteralString = f"""
SELECT a.id AS turn_id, a.tenant_id, a.session_id, a.trace_id
  FROM (SELECT t.id, t.tenant_id, t.session_id, t.trace_id, t.counts_from, {DUE} AND t.crashes = 0 AS may_run
          FROM turns t
         WHERE t.queue = %(queue)s AND {INDEXED_STATUS} = 'PENDING' AND t.seq IS NOT NULL
           AND t.counts_from <= now() - make_interval(secs => %(behind)s)
         ORDER BY t.counts_from LIMIT %(most)s) a
  CROSS JOIN LATERAL ({OPEN_HEAD.format(of="a")}) head
  CROSS JOIN LATERAL (
      SELECT s.halted_by FROM sessions s WHERE s.tenant_id = a.tenant_id AND s.session_id = a.session_id LIMIT 1) s
 WHERE a.may_run AND a.tenant_id <> ALL (%(but_tenants)s::text[]) AND head.id = a.id AND s.halted_by IS NULL
 ORDER BY a.counts_from LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class TurnAhead:
    """A turn that a worker should take before the messages that it receives now."""

    turn_id: UUID
    tenant_id: str
    session_id: str
    trace_id: str


async def find_ahead(
    database: Database, queue: str, behind_seconds: float, limit: int, *, but_tenants: Sequence[str] = ()
) -> list[TurnAhead]:
    """The due turns that count as submitted more than `behind_seconds` ago, the oldest first, except those of `but_tenants`.

    Raises DatabaseUnavailableError.
    """
    parameters = {
        "queue": queue,
        "behind": behind_seconds,
        "limit": limit,
        "but_tenants": list(but_tenants),
        "most": MOST_LOOKED_AT,
    }
    return [TurnAhead(**row) for row in await database.fetch(FIND_AHEAD, parameters)]
