"""The attempts of a turn, as its claims and settlements recorded them."""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from turnstile.archive.reads import IN_TABLE, OF_TURN
from turnstile.backends.postgres.database import Database

READ: LiteralString = f"""
SELECT attempt, fence, generation, worker_id, started_at, finished_at, outcome, error_class, error
  FROM turn_attempts WHERE turn_id = %(id)s AND {IN_TABLE}
UNION ALL
SELECT t.attempt, t.fence, t.generation, t.worker_id, t.started_at, t.finished_at, t.outcome, t.error_class, t.error
  FROM {OF_TURN} CROSS JOIN LATERAL json_populate_recordset(NULL::turn_attempts, a.attempts) t
 ORDER BY fence
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """One claim that has ended: finished, lost or given back. A claim under way is only in the turn's row."""

    attempt: int
    fence: int
    generation: int
    worker_id: str | None
    started_at: datetime | None
    finished_at: datetime
    outcome: str
    error_class: str | None
    error: str | None


async def read_attempts(database: Database, tenant_id: str, turn_id: UUID) -> list[EndedAttempt]:
    """The ended attempts of all generations of a turn, in the order of their fences."""
    return [EndedAttempt(**row) for row in await database.fetch(READ, {"tenant": tenant_id, "id": turn_id})]
