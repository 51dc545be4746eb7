"""How the turns that a redrive has put back have ended since. Each row is found by its key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.turn.status import TurnStatus

READ_ENDS: LiteralString = """
SELECT t.id, CASE WHEN t.generation > w.generation THEN 'FAILED' ELSE t.status END AS status,
       CASE WHEN t.generation = w.generation THEN t.error_class END AS error_class
  FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) w (id, generation) JOIN turns t ON t.id = ANY (ARRAY[w.id])
 WHERE t.generation > w.generation OR ('' || t.status) NOT IN ('PENDING', 'RUNNING')
 ORDER BY t.finished_at, t.id
"""
"""A turn of a later generation was redriven once more: it must have failed in between."""


@dataclass(frozen=True, slots=True)
class RedrivenEnd:
    """The end of a turn in the generation that a redrive began."""

    id: UUID
    status: TurnStatus
    error_class: str | None
    """FAILED only; None if the turn was redriven once more since."""


async def read_ends(database: Database, generations: Mapping[UUID, int]) -> list[RedrivenEnd]:
    """Those of the turns that have ended in (or since) these generations, in the order of their ends."""
    asked = {"ids": list(generations), "generations": list(generations.values())}
    rows = await database.fetch(READ_ENDS, asked)
    return [RedrivenEnd(row["id"], TurnStatus(row["status"]), row["error_class"]) for row in rows]
