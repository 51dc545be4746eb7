"""What `turnstile doctor --fix` may write: it owes messages, and forgets workers. Never a status, an attempt, a reply.

It goes the relay's way: a stamp ahead in `send_at`, then the send. A repair that dies in between has put the row into any
relay's hands, and one that is repeated costs a look.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.doctor.symptoms import SickTurn
from turnstile.statements.head import WAKE_HEAD
from turnstile.statements.send_due import DEAD_LETTERED, PLACE_SCHEDULED, DueRow
from turnstile.turn.envelope import DeadLetter, OutgoingMessage
from turnstile.turn.status import TurnStatus

# Only rows that are as they were seen. What is not due before its time gets a `send_at` then, and no message now.
OWE: LiteralString = """
WITH sick AS MATERIALIZED (
    SELECT t.id FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(generations)s::int[], %(statuses)s::text[])
           x (id, fence, generation, status) JOIN turns t ON t.id = x.id
     WHERE t.fence = x.fence AND t.generation = x.generation AND t.status = x.status
       AND t.status IN ('PENDING', 'RUNNING', 'FAILED') ORDER BY t.id FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE turns t
   SET send_at = greatest(clock_timestamp() + make_interval(secs => %(stamp)s),
                          CASE WHEN t.status = 'PENDING' THEN t.execute_at END)
  FROM sick WHERE t.id = sick.id
RETURNING t.id, t.tenant_id, t.session_id, t.queue, t.status, t.attempt, t.fence, t.generation, t.error_class, t.error,
          t.trace_id, t.span_id, t.send_at,
          t.status = 'PENDING' AND (t.seq IS NULL OR coalesce(t.execute_at > now(), false)) AS later
"""

FORGET: LiteralString = """
DELETE FROM workers w USING unnest(%(ids)s::text[], %(seen)s::timestamptz[]) x (worker_id, seen_at)
 WHERE w.worker_id = x.worker_id AND w.seen_at = x.seen_at RETURNING w.worker_id
"""


@dataclass(frozen=True, slots=True)
class Owed:
    """A row that is owed a message from now on. `later`: not before its `send_at`, so there is nothing to send now."""

    row: DueRow
    later: bool


async def owe(database: Database, turns: Sequence[SickTurn], *, stamp_seconds: float) -> list[Owed]:
    """Owes each of these turns its message: a wake-up, or a FAILED one its dead letter. Returns those not moved on.

    The message is the caller's to send; if it never does, a relay sends it after `stamp_seconds`.
    """
    if any(turn.status == TurnStatus.PENDING for turn in turns):
        # A scheduled turn without its place can't be claimed, whatever is sent for it.
        ids, queues = [turn.id for turn in turns], sorted({turn.queue for turn in turns})
        asked = {"queues": queues, "limit": len(turns), "only": ids, "left_out": []}
        await database.fetch(PLACE_SCHEDULED, asked)
    parameters = {
        "ids": [turn.id for turn in turns],
        "fences": [turn.fence for turn in turns],
        "generations": [turn.generation for turn in turns],
        "statuses": [turn.status for turn in turns],
        "stamp": stamp_seconds,
    }
    return [_owed(row) for row in await database.fetch(OWE, parameters)]


def _owed(row: Any) -> Owed:
    fields = dict(row)
    later = fields.pop("later")
    return Owed(DueRow(**{**fields, "status": TurnStatus(fields["status"])}), later)


async def note_dead_letters(database: Database, sent: Sequence[DeadLetter]) -> None:
    """Writes that these dead letters are out."""
    parameters = {
        "ids": [letter.message.wake_up.turn_id for letter in sent],
        "generations": [letter.generation for letter in sent],
    }
    await database.fetch(DEAD_LETTERED, parameters)


async def wake_head(database: Database, tenant_id: str, session_id: str) -> tuple[str, OutgoingMessage] | None:
    """Owes a session's due head a wake-up: its queue and the message to send; None if nothing is due there."""
    for row in await database.fetch(WAKE_HEAD, {"tenant": tenant_id, "session": session_id}):
        return row["queue"], OutgoingMessage.about(row)
    return None


async def forget_workers(database: Database, seen: Sequence[tuple[str, datetime]]) -> set[str]:
    """Removes workers (id, last seen) from the registry unless they were seen again; returns the removed ones.

    One that lives after all enters itself again with its next heartbeat.
    """
    parameters = {"ids": [worker_id for worker_id, _ in seen], "seen": [moment for _, moment in seen]}
    return {row["worker_id"] for row in await database.fetch(FORGET, parameters)}
