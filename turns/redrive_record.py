"""The record of redrives: who put what back to work, when, by which filter.

`finished_at` stays empty for a redrive that was cut short. One that is killed between a batch and its note here lacks
the turns of that batch: the rows themselves (generation, trace) are what counts, this is for people.
"""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from turns.database import Database

BEGIN: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter) VALUES (%(queue)s, %(requested_by)s, %(filter)s) RETURNING id
"""

NOTE: LiteralString = "UPDATE redrives SET turn_ids = turn_ids || %(ids)s::uuid[] WHERE id = %(id)s"

RECORD: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter, turn_ids, finished_at)
VALUES (%(queue)s, %(requested_by)s, %(filter)s, %(ids)s, clock_timestamp())
"""
"""What is over as it is written: for a transaction that records its own work."""

FINISH: LiteralString = "UPDATE redrives SET finished_at = clock_timestamp() WHERE id = %(id)s"


async def begin(database: Database, *, requested_by: str, queue: str | None, wanted: Mapping[str, Any]) -> int:
    """Records that a redrive has started; returns its id."""
    parameters = {"queue": queue, "requested_by": requested_by, "filter": Jsonb(dict(wanted))}
    rows = await database.fetch(BEGIN, parameters)
    return int(rows[0]["id"])


async def note(database: Database, redrive_id: int, turn_ids: Sequence[UUID]) -> None:
    """Adds the turns that it has put back to work."""
    await database.fetch(NOTE, {"id": redrive_id, "ids": list(turn_ids)})


async def finish(database: Database, redrive_id: int) -> None:
    """Records that it came to its end."""
    await database.fetch(FINISH, {"id": redrive_id})
