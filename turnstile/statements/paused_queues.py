"""Paused queues: their workers do not begin turns, and relays do not send their wake-ups. Workers and relays read the
table with every heartbeat.

Turns are accepted as usual, and wait. A pause does not move a turn's `expires_at`.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import change_and_record
from turnstile.backends.postgres.database import Database

PAUSE: LiteralString = """
INSERT INTO paused_queues (queue, paused_by, reason) VALUES (%(queue)s, %(paused_by)s, %(reason)s)
    ON CONFLICT (queue) DO UPDATE SET paused_by = excluded.paused_by, reason = excluded.reason
 WHERE excluded.reason <> coalesce(paused_queues.reason, '')
RETURNING queue
"""

RESUME: LiteralString = "DELETE FROM paused_queues WHERE queue = %(queue)s RETURNING queue"

READ_PAUSED: LiteralString = "SELECT queue, paused_by, reason, paused_at FROM paused_queues"


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedQueue:
    queue: str
    paused_by: str
    reason: str | None
    paused_at: datetime


async def pause_queue(database: Database, queue: str, *, paused_by: str, reason: str | None) -> bool:
    """Pauses the queue. If it is paused already, only a new `reason` and its author are recorded. False if nothing
    changed."""
    event = AuditEvent(kind=AuditKind.QUEUE_PAUSED, actor=paused_by, subject=f"queue {queue}", reason=reason)
    given = {"queue": queue, "paused_by": paused_by, "reason": reason}
    return await change_and_record(database, PAUSE, given, lambda _: event) is not None


async def resume_queue(database: Database, queue: str, *, resumed_by: str) -> bool:
    """False if the queue was not paused."""
    event = AuditEvent(kind=AuditKind.QUEUE_RESUMED, actor=resumed_by, subject=f"queue {queue}")
    return await change_and_record(database, RESUME, {"queue": queue}, lambda _: event) is not None


async def read_paused_queues(database: Database) -> dict[str, PausedQueue]:
    """The paused queues by name. Raises DatabaseUnavailableError."""
    return {row["queue"]: PausedQueue(**row) for row in await database.fetch(READ_PAUSED, {})}
