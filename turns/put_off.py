"""Put off: a session whose wake-up nobody has room for is owed another one, some seconds later (rule 3: `send_at`).

Committed before the message that brought it is deleted, so that there is a wake-up at every instant. Only a turn that is due is
touched: a retry that waits has its own `send_at`, and sent before its time it would be put back by the net.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turns.database import Database
from turns.head import DUE

# The first PENDING turn, head or not: where the head is RUNNING, whoever has it may have looked for the next one a moment
# before it was there.
PUT_OFF: LiteralString = f"""
WITH first AS MATERIALIZED (
    SELECT p.id, w.seconds
      FROM unnest(%(tenants)s::text[], %(sessions)s::text[], %(seconds)s::float8[]) w (tenant_id, session_id, seconds)
     CROSS JOIN LATERAL (
         SELECT h.id FROM turns h
          WHERE h.tenant_id = w.tenant_id AND h.session_id = w.session_id AND h.seq IS NOT NULL AND h.status = 'PENDING'
          ORDER BY h.seq LIMIT 1) p
), locked AS MATERIALIZED (
    SELECT t.id, first.seconds FROM first JOIN turns t ON t.id = first.id WHERE {DUE} ORDER BY t.id FOR NO KEY UPDATE OF t
)
UPDATE turns t
   SET send_at = least(t.send_at, clock_timestamp() + make_interval(secs => locked.seconds)), sends = 0
  FROM locked WHERE t.id = locked.id AND {DUE}
"""


@dataclass(frozen=True, slots=True)
class PutOff:
    """A session, and in how many seconds it is owed a wake-up at the latest; 0: now."""

    tenant_id: str
    session_id: str
    seconds: float


async def put_off(database: Database, sessions: Sequence[PutOff]) -> list[None]:
    """Owes each of them its wake-up, where a turn is due. Raises DatabaseUnavailableError; may be called again."""
    parameters = {
        "tenants": [one.tenant_id for one in sessions],
        "sessions": [one.session_id for one in sessions],
        "seconds": [one.seconds for one in sessions],
    }
    await database.fetch(PUT_OFF, parameters)
    return [None] * len(sessions)
