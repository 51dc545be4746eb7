"""Drop: an operator gives FAILED turns up (`turnstile dlq drop`).

The row stays FAILED and keeps its input and its error. Nothing asks for an operator any more: no alarm counts the turn, and the
lists of failed turns leave it out. A dead letter that is owed is not sent, and one that was sent, or that a relay is sending at
this moment, is obsolete (`statements.revive.READ_GENERATIONS`), so the next sweep deletes it. A redrive that names the turn
still puts it back to work, and clears the mark.

A turn that halts its session is not dropped: `ops.sessions.halted_session.skip` decides about it first.

A drop may be killed at any point and run again: one statement gives up a batch, and the next sweep deletes the letters
that are left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import LiteralString
from uuid import UUID

from turnstile.audit.event import AuditKind
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.failed_turns import BATCH, FailedFilter
from turnstile.ops.dead_letters.sweep import sweep_queues
from turnstile.ops.terminal.output import Progress, plural
from turnstile.statements.redrive_audit import RedriveRecord, begin
from turnstile.statements.session_head import IS_FAILED
from turnstile.turn.turn_record import TurnRecord

DROP_FAILED: LiteralString = f"""
WITH wanted AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(generations)s::int[]) w (id, generation) JOIN turns t ON {by_key("t.id", "w.id")}
     WHERE {IS_FAILED} AND t.generation = w.generation AND t.dropped_at IS NULL
       AND NOT EXISTS (SELECT FROM sessions s WHERE s.halted_by = t.id)
     ORDER BY w.id FOR NO KEY UPDATE OF t
)
UPDATE turns t SET dropped_at = clock_timestamp(), dropped_by = %(dropped_by)s, send_at = NULL
  FROM wanted w WHERE {by_key("t.id", "w.id")} AND {IS_FAILED}
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


@dataclass(slots=True, kw_only=True)
class DropResult:
    """The counts of a drop."""

    dropped: list[UUID] = field(default_factory=list)
    moved_on: int = 0
    """Turns that were no longer FAILED in their generation, or had been dropped before."""
    swept: int = 0
    """Obsolete messages that were deleted from the DLQs, others among them."""
    unswept_queues: list[str] = field(default_factory=list)
    """Queues whose letters are left: SQS was away, refused a deletion, or has no such queue."""


async def drop_turns(
    database: Database, queues: MessageQueues, wanted: FailedFilter, failed: Sequence[TurnRecord], *, requested_by: str
) -> DropResult:
    """Gives up those that are still FAILED in the same generation, then sweeps the DLQs of their queues.

    Raises DatabaseUnavailableError. Continues without SQS.
    """
    result = DropResult()
    recorded = {"drop": wanted.as_recorded()}
    record = await begin(
        database,
        requested_by=requested_by,
        queue=wanted.queue,
        wanted=recorded,
        matched=len(failed),
        kind=AuditKind.TURNS_DROPPED,
        tenant_id=wanted.tenant_id,
    )
    try:
        await _drop(database, queues, failed, requested_by, record, result)
        await record.finish()
    except BaseException as error:
        await record.broke_off(error)
        raise
    return result


async def _drop(
    database: Database,
    queues: MessageQueues,
    failed: Sequence[TurnRecord],
    requested_by: str,
    record: RedriveRecord,
    result: DropResult,
) -> None:
    progress = Progress()
    for start in range(0, len(failed), BATCH):
        batch = failed[start : start + BATCH]
        dropped = await drop_failed(database, [(turn.id, turn.generation) for turn in batch], dropped_by=requested_by)
        if dropped:
            await record.note(dropped)
        result.dropped += dropped
        result.moved_on += len(batch) - len(dropped)
        progress.say(f"{start + len(batch)} of {plural(len(failed), 'turn')} dropped")
    swept = await sweep_queues(database, queues, sorted({turn.queue for turn in failed}))
    result.swept = sum(one.swept for one in swept.values() if one is not None)
    result.unswept_queues = [queue for queue, one in swept.items() if one is None or one.unswept]
