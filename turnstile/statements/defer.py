"""Defer: a session whose run ends, or finds no free slot, gets another wake-up now or some seconds later (rule 3: `send_at`).

It commits before the message is deleted, so a wake-up is owed at every moment. It changes only a turn that is due, because a
retry that waits has its own `send_at`. It skips a locked row: waiting for it would delay the other sessions of the batch.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.statements.session_head import DUE

# The first PENDING turn, head or not: while the head is RUNNING, its worker may have looked for the next turn just
# before this turn was submitted.
DEFER: LiteralString = f"""
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
    SELECT t.id, due.seconds FROM due JOIN turns t ON {by_key("t.id", "due.id")} WHERE {DUE} ORDER BY due.id
       FOR NO KEY UPDATE OF t SKIP LOCKED
), defer AS (
    UPDATE turns t
       SET send_at = least(t.send_at, clock_timestamp() + make_interval(secs => free.seconds)), sends = 0
      FROM free WHERE {by_key("t.id", "free.id")} AND {DUE}
)
SELECT due.place, NOT EXISTS (SELECT FROM free WHERE free.id = due.id) AS locked FROM due
"""


@dataclass(frozen=True, slots=True)
class Defer:
    """A session, and the seconds after which it is owed a wake-up at the latest; 0: now."""

    tenant_id: str
    session_id: str
    seconds: float


class DeferResult(enum.Enum):
    YES = enum.auto()
    LOCKED = enum.auto()
    """Another transaction has locked its due turn, or has just claimed or ended it: look again."""
    NOTHING_DUE = enum.auto()


async def defer(database: Database, sessions: Sequence[Defer]) -> list[DeferResult]:
    """Owes each session with a due turn a wake-up. Raises DatabaseUnavailableError; may be repeated."""
    parameters = {
        "tenants": [one.tenant_id for one in sessions],
        "sessions": [one.session_id for one in sessions],
        "seconds": [one.seconds for one in sessions],
    }
    rows = await database.fetch(DEFER, parameters)
    owed = {row["place"]: DeferResult.LOCKED if row["locked"] else DeferResult.YES for row in rows}
    return [owed.get(place, DeferResult.NOTHING_DUE) for place in range(1, len(sessions) + 1)]
