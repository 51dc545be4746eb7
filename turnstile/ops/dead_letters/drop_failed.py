"""Drop: an operator gives FAILED turns up (`turnstile dlq drop`).

The row stays FAILED and keeps its input and its error. Nothing asks for an operator any more: no alarm counts the turn, and the
lists of failed turns leave it out. A dead letter that is owed is not sent, and one that was sent, or that a relay is sending at
this moment, is obsolete (`statements.revive.READ_GENERATIONS`), so the next sweep deletes it. A redrive that names the turn
still puts it back to work, and clears the mark.

A turn that halts its session is not dropped: `ops.sessions.halted_session.skip` decides about it first.
"""

from collections.abc import Sequence
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.statements.session_head import IS_FAILED

DROP_FAILED: LiteralString = f"""
WITH wanted AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) w (id, generation) JOIN turns t ON t.id = ANY (ARRAY[w.id])
     WHERE {IS_FAILED} AND t.generation = w.generation AND t.dropped_at IS NULL
       AND NOT EXISTS (SELECT FROM sessions s WHERE s.halted_by = t.id)
     ORDER BY w.id FOR NO KEY UPDATE OF t
)
UPDATE turns t SET dropped_at = clock_timestamp(), dropped_by = %(dropped_by)s, send_at = NULL
  FROM wanted w WHERE t.id = ANY (ARRAY[w.id]) AND {IS_FAILED}
RETURNING t.id
"""


async def drop_failed(database: Database, failed: Sequence[tuple[UUID, int]], *, dropped_by: str) -> list[UUID]:
    """Gives up those (turn id, generation) pairs that are FAILED in that generation, and returns their ids.

    Raises DatabaseUnavailableError; may be called again.
    """
    parameters = {
        "ids": [turn_id for turn_id, _ in failed],
        "generations": [generation for _, generation in failed],
        "dropped_by": dropped_by,
    }
    return [row["id"] for row in await database.fetch(DROP_FAILED, parameters)]
