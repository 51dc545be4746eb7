"""Drop: an operator gives FAILED turns up. The rows stay, alarms and lists leave them out, and the DLQ loses their letters.

It may be killed at any point and run again: a turn is given up in one statement, and the next sweep deletes remaining letters.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.message_queue import MessageQueues
from turnstile.ops.dead_letters.batches import BATCH, slices
from turnstile.ops.dead_letters.drop_failed import drop_failed
from turnstile.ops.dead_letters.failed_turns import FailedFilter
from turnstile.ops.dead_letters.sweep import sweep_queues
from turnstile.ops.terminal.operator_access import describe_operator
from turnstile.ops.terminal.output import Progress, many
from turnstile.queries.turns import TurnRecord
from turnstile.statements.redrive_audit import RedriveRecord, begin


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
    database: Database, queues: MessageQueues, wanted: FailedFilter, failed: Sequence[TurnRecord]
) -> DropResult:
    """Gives up those that are still FAILED in the same generation, then sweeps the DLQs of their queues.

    Raises DatabaseUnavailableError. Continues without SQS.
    """
    result = DropResult()
    who = describe_operator()
    record = await begin(
        database, requested_by=who, queue=wanted.queue, wanted={"drop": wanted.as_recorded()}, matched=len(failed)
    )
    try:
        await _drop(database, queues, failed, who, record, result)
        await record.finish()
    except BaseException as error:
        await record.broke_off(error)
        raise
    return result


async def _drop(
    database: Database,
    queues: MessageQueues,
    failed: Sequence[TurnRecord],
    who: str,
    record: RedriveRecord,
    result: DropResult,
) -> None:
    progress = Progress()
    for start, end in slices(len(failed), BATCH):
        batch = failed[start:end]
        dropped = await drop_failed(database, [(turn.id, turn.generation) for turn in batch], dropped_by=who)
        if dropped:
            await record.note(dropped)
        result.dropped += dropped
        result.moved_on += len(batch) - len(dropped)
        progress.say(f"{end} of {many(len(failed), 'turn')} dropped")
    swept = await sweep_queues(database, queues, sorted({turn.queue for turn in failed}))
    result.swept = sum(one.swept for one in swept.values() if one is not None)
    result.unswept_queues = [queue for queue, one in swept.items() if one is None or one.unswept]
