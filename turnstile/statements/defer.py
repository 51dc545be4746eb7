"""Put off: a session whose wake-up nobody has room for is owed another one, some seconds later (rule 3: `send_at`).

Committed before the message that brought it is deleted, so that there is a wake-up at every instant. Only a turn that is due is
touched: a retry that waits has its own `send_at`, and sent before its time it would be put back by the net. Nor one that somebody
sits on: to wait for that row would keep waiting whoever is put off together with it.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.statements.head import DUE

# The first PENDING turn, head or not: where the head is RUNNING, whoever has it may have looked for the next one a moment
# before it was there.
PUT_OFF: LiteralString = f"""
WITH due AS MATERIALIZED (
    SELECT w.place, w.seconds, p.id
      FROM unnest(%(tenants)s::text[], %(sessions)s::text[], %(seconds)s::float8[])
               WITH ORDINALITY w (tenant_id, session_id, seconds, place)
     CROSS JOIN LATERAL (
         SELECT t.id, {DUE} AS is_due FROM turns t
          WHERE t.tenant_id = w.tenant_id AND t.session_id = w.session_id AND t.seq IS NOT NULL AND t.status = 'PENDING'
          ORDER BY t.seq LIMIT 1) p
     WHERE p.is_due
), free AS MATERIALIZED (
    SELECT t.id, due.seconds FROM due JOIN turns t ON t.id = ANY (ARRAY[due.id]) WHERE {DUE} ORDER BY due.id
       FOR NO KEY UPDATE OF t SKIP LOCKED
), put_off AS (
    UPDATE turns t
       SET send_at = least(t.send_at, clock_timestamp() + make_interval(secs => free.seconds)), sends = 0
      FROM free WHERE t.id = ANY (ARRAY[free.id]) AND {DUE}
)
SELECT due.place, NOT EXISTS (SELECT FROM free WHERE free.id = due.id) AS held FROM due
"""


@dataclass(frozen=True, slots=True)
class PutOff:
    """A session, and in how many seconds it is owed a wake-up at the latest; 0: now."""

    tenant_id: str
    session_id: str
    seconds: float


class Owed(enum.Enum):
    """Whether a session is owed its wake-up."""

    YES = enum.auto()
    HELD = enum.auto()
    """Its due turn was in somebody's hand, or was claimed or ended in this moment: look again."""
    NOTHING_DUE = enum.auto()


async def put_off(database: Database, sessions: Sequence[PutOff]) -> list[Owed]:
    """Owes each of them its wake-up, where a turn is due. Raises DatabaseUnavailableError; may be called again."""
    parameters = {
        "tenants": [one.tenant_id for one in sessions],
        "sessions": [one.session_id for one in sessions],
        "seconds": [one.seconds for one in sessions],
    }
    rows = await database.fetch(PUT_OFF, parameters)
    owed = {row["place"]: Owed.HELD if row["held"] else Owed.YES for row in rows}
    return [owed.get(place, Owed.NOTHING_DUE) for place in range(1, len(sessions) + 1)]
