"""The record of redrives, retries, skips, drops and moves, as an operator reads it. Read by the table's key, from its end."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from turnstile.backends.postgres.database import Database

# A record of many turns has several rows (`statements.redrive_audit`). That of a skip or a move has no turn ids: they
# would explain a dead letter of another turn (`queries.attention`).
LOG: LiteralString = """
WITH shown AS MATERIALIZED (
    SELECT r.* FROM redrives r WHERE r.filter -> 'continues' IS NULL ORDER BY r.id DESC LIMIT %(limit)s
), further AS (
    SELECT (c.filter ->> 'continues')::bigint AS id, sum(cardinality(c.turn_ids)) AS turns
      FROM redrives c WHERE c.id > (SELECT min(id) FROM shown) AND c.filter -> 'continues' IS NOT NULL GROUP BY 1
)
SELECT s.id, s.requested_by, s.queue, s.filter, s.matched,
       CASE WHEN s.filter ?| ARRAY['skip', 'move'] THEN s.matched
            ELSE (cardinality(s.turn_ids) + coalesce(f.turns, 0))::int END AS turns,
       s.sent, s.unsent, s.started_at, s.finished_at, s.outcome, s.reason,
       CASE WHEN s.filter ? 'retry' THEN 'retry' WHEN s.filter ? 'skip' THEN 'skip' WHEN s.filter ? 'drop' THEN 'drop'
            WHEN s.filter ? 'move' THEN 'move' ELSE 'redrive' END AS action
  FROM shown s LEFT JOIN further f USING (id) ORDER BY s.id DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRedrive:
    """One command of an operator that decided about FAILED turns."""

    id: int
    action: str
    """`redrive`, `retry`, `skip`, `drop` or `move` (a dead letter came back to its queue)."""
    requested_by: str
    queue: str | None
    filter: dict[str, Any]
    matched: int
    turns: int
    """How many turns it put back to work; of a drop, how many it gave up; of a skip, how many it passed over."""
    sent: int
    unsent: int
    """Wake-ups that SQS did not accept: the relay sent them."""
    started_at: datetime
    finished_at: datetime | None
    outcome: str | None
    """`finished`, `stopped` (by itself) or `broken_off`; None while it runs, and if it was killed."""
    reason: str | None

    @property
    def left_alone(self) -> int:
        """Matching turns that it did not put back, or not yet."""
        return self.matched - self.turns


async def read_redrive_log(database: Database, limit: int) -> list[RecordedRedrive]:
    """The last `limit` records, newest first."""
    return [RecordedRedrive(**row) for row in await database.fetch(LOG, {"limit": limit})]
