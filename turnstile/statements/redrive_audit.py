"""The record of redrives: which turns an operator redrove, when, and with which filter.

`finished_at` stays NULL for an interrupted redrive. If a redrive is killed between a batch and its note, the record lacks the
turns of that batch. The record is for operators; the turns' rows (generation, trace) are authoritative. A redrive of many
turns has several rows; the filter of the later rows has the id of the first: `{"continues": 17}`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString
from uuid import UUID

from psycopg.types.json import Jsonb

from turnstile.backends.postgres.database import Database

RECORD: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter, turn_ids, finished_at)
VALUES (%(queue)s, %(requested_by)s, %(filter)s, %(ids)s::uuid[], CASE WHEN %(finished)s THEN clock_timestamp() END)
RETURNING id
"""

NOTE: LiteralString = "UPDATE redrives SET turn_ids = turn_ids || %(ids)s::uuid[] WHERE id = %(id)s"

FINISH: LiteralString = "UPDATE redrives SET finished_at = now() WHERE id = ANY (%(ids)s::bigint[])"

TURNS_A_ROW = 1000
"""Turns in one row at most. Each append rewrites the array: with a single row, 20,000 turns took 71 MB of WAL."""


class RedriveRecord:
    """The record of one redrive under way; `begin` makes it."""

    def __init__(self, database: Database, about: Mapping[str, Any], redrive_id: int) -> None:
        self.id = redrive_id
        self._database = database
        self._about = about
        self._rows = [redrive_id]
        self._in_last_row = 0

    async def note(self, turn_ids: Sequence[UUID]) -> None:
        """Adds redriven turns, at most `TURNS_A_ROW` per call."""
        full = self._in_last_row + len(turn_ids) > TURNS_A_ROW
        another = {**self._about, "filter": Jsonb({"continues": self.id})}
        changed = another if full else {"id": self._rows[-1]}
        written = await self._database.fetch(RECORD if full else NOTE, {**changed, "ids": list(turn_ids)})
        self._rows += [row["id"] for row in written]
        self._in_last_row = len(turn_ids) + (0 if full else self._in_last_row)

    async def finish(self) -> None:
        await self._database.fetch(FINISH, {"ids": self._rows})


async def begin(
    database: Database, *, requested_by: str, queue: str | None, wanted: Mapping[str, Any]
) -> RedriveRecord:
    about = {"queue": queue, "requested_by": requested_by, "finished": False}
    rows = await database.fetch(RECORD, {**about, "filter": Jsonb(dict(wanted)), "ids": []})
    return RedriveRecord(database, about, int(rows[0]["id"]))
