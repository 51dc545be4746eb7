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

BEGIN: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter) VALUES (%(queue)s, %(requested_by)s, %(filter)s) RETURNING id
"""

NOTE: LiteralString = "UPDATE redrives SET turn_ids = turn_ids || %(ids)s::uuid[] WHERE id = %(id)s"

CONTINUE: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter, turn_ids)
SELECT queue, requested_by, jsonb_build_object('continues', id), %(ids)s::uuid[] FROM redrives WHERE id = %(id)s
RETURNING id
"""

RECORD: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter, turn_ids, finished_at)
VALUES (%(queue)s, %(requested_by)s, %(filter)s, %(ids)s, clock_timestamp())
"""
"""A finished record: for a transaction that records its own work."""

FINISH: LiteralString = "UPDATE redrives SET finished_at = now() WHERE id = ANY (%(ids)s::bigint[])"

TURNS_A_ROW = 1000
"""Turns in one row at most. Each append rewrites the array: with a single row, 20,000 turns took 71 MB of WAL."""


class RedriveRecord:
    """The record of one redrive under way; `begin` makes it."""

    def __init__(self, database: Database, redrive_id: int) -> None:
        self.id = redrive_id
        self._database = database
        self._rows = [redrive_id]
        self._in_last_row = 0

    async def note(self, turn_ids: Sequence[UUID]) -> None:
        """Adds redriven turns, at most `TURNS_A_ROW` per call."""
        full = self._in_last_row + len(turn_ids) > TURNS_A_ROW
        parameters = {"id": self.id if full else self._rows[-1], "ids": list(turn_ids)}
        written = await self._database.fetch(CONTINUE if full else NOTE, parameters)
        self._rows += [row["id"] for row in written]
        self._in_last_row = len(turn_ids) + (0 if full else self._in_last_row)

    async def finish(self) -> None:
        await self._database.fetch(FINISH, {"ids": self._rows})


async def begin(
    database: Database, *, requested_by: str, queue: str | None, wanted: Mapping[str, Any]
) -> RedriveRecord:
    parameters = {"queue": queue, "requested_by": requested_by, "filter": Jsonb(dict(wanted))}
    rows = await database.fetch(BEGIN, parameters)
    return RedriveRecord(database, int(rows[0]["id"]))
