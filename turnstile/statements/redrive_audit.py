"""The record of redrives: which turns an operator redrove, when, with which filter, and how that ended. Retries, skips and drops
are recorded in the same table: their filters begin with `retry`, `skip` and `drop`. So is a dead letter that came back to its
queue by AWS's own tools: `move`. The audit has an event of each, except of a move, whose author nobody knows.

`finished_at` stays NULL for an interrupted redrive; `outcome`, too, if it was killed. If a redrive is killed between a batch and
its note, the record lacks the turns of that batch. The record is for operators; the turns' rows (generation, trace) are
authoritative. A redrive of many turns has several rows; the filter of the later rows has the id of the first:
`{"continues": 17}`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow
from psycopg.types.json import Jsonb

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import change_and_record
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.errors import DatabaseUnavailableError
from turnstile.statements.session_head import IS_PENDING

RECORD: LiteralString = """
INSERT INTO redrives (queue, requested_by, filter, matched, turn_ids, finished_at, outcome)
VALUES (%(queue)s, %(requested_by)s, %(filter)s, %(matched)s, %(ids)s::uuid[],
        CASE WHEN %(finished)s THEN clock_timestamp() END, CASE WHEN %(finished)s THEN 'finished' END)
RETURNING id
"""

# Without turn ids, as for a skip: its letter has left the DLQ, and they would explain another one (`queries.attention`).
RECORD_MOVE: LiteralString = f"""
INSERT INTO redrives (queue, requested_by, filter, matched, finished_at, outcome)
SELECT t.queue, %(requested_by)s, jsonb_build_object('move', t.id), 1, clock_timestamp(), 'finished' FROM turns t
 WHERE {by_key("t.id", "%(id)s::uuid")} AND t.generation = %(generation)s + 1 AND t.trace_id = %(trace)s AND {IS_PENDING}
"""
"""In the transaction that revived the turn because its dead letter came back to its queue; nothing if it did not."""

NOTE: LiteralString = "UPDATE redrives SET turn_ids = turn_ids || %(ids)s::uuid[] WHERE id = %(id)s"

# Broken off, it stays unfinished: its sweep did not run, and its dead letters still explain themselves for a day
# (`queries.attention`).
FINISH: LiteralString = """
UPDATE redrives
   SET finished_at = CASE WHEN %(outcome)s <> 'broken_off' THEN now() END, outcome = %(outcome)s, reason = %(reason)s,
       sent = %(sent)s, unsent = %(unsent)s
 WHERE id = ANY (%(ids)s::bigint[])
"""

TURNS_A_ROW = 1000
"""Turns in one row at most. Each append rewrites the array: with a single row, 20,000 turns took 71 MB of WAL."""


class RedriveOutcome(StrEnum):
    """How a redrive ended, as recorded."""

    FINISHED = "finished"
    STOPPED = "stopped"
    """It stopped by itself, for the recorded reason: turns that it had put back failed again."""
    BROKEN_OFF = "broken_off"
    """The operator or an error stopped it."""


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

    async def broke_off(self, error: BaseException, *, sent: int = 0, unsent: int = 0) -> None:
        """Records that an error or an interruption ended it; best effort, because Postgres may be away."""
        why = "interrupted" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        with suppress(DatabaseUnavailableError):
            await self.finish(RedriveOutcome.BROKEN_OFF, why, sent=sent, unsent=unsent)

    async def finish(
        self,
        outcome: RedriveOutcome = RedriveOutcome.FINISHED,
        reason: str | None = None,
        *,
        sent: int = 0,
        unsent: int = 0,
    ) -> None:
        """Records how it ended; `sent` and `unsent` count its wake-ups."""
        await self._database.fetch(
            FINISH, {"ids": self._rows, "outcome": outcome.value, "reason": reason, "sent": sent, "unsent": unsent}
        )


async def begin(
    database: Database,
    *,
    requested_by: str,
    queue: str | None,
    wanted: Mapping[str, Any],
    matched: int = 0,
    kind: AuditKind = AuditKind.TURNS_REDRIVEN,
    tenant_id: str | None = None,
) -> RedriveRecord:
    """Begins the record of a redrive whose filter `wanted` matched so many turns; with it commits an audit event of this `kind`.

    `tenant_id` is that of the filter.
    """
    about = {"queue": queue, "requested_by": requested_by, "finished": False, "matched": matched}

    def event(row: DictRow) -> AuditEvent:
        counts = {"turns": matched}
        subject = f"redrive {row['id']}"
        return AuditEvent(kind=kind, actor=requested_by, subject=subject, tenant_id=tenant_id, counts=counts)

    row = await change_and_record(database, RECORD, {**about, "filter": Jsonb(dict(wanted)), "ids": []}, event)
    assert row is not None  # noqa: S101 - an INSERT of VALUES returns its row
    return RedriveRecord(database, about, int(row["id"]))
