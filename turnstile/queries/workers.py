"""The workers as an operator sees them: what their last heartbeats said, the state of each, and the turns that run."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.worker_registry import ALIVE, LOST_LATELY

# The registry has a row for each process of the last day or so.
WORKERS: LiteralString = f"""
SELECT w.worker_id, w.queue, w.host, w.pid, w.version, w.release, w.slots, w.busy, w.draining, w.deaf_for_seconds,
       w.blocked_for_seconds, w.blocked_by, w.starved_for_seconds, w.broken_by, w.lease_seconds, w.started_at, w.seen_at,
       w.lost_at, {ALIVE} AS alive, p.queue IS NOT NULL AS paused, now() AS read_at
  FROM workers w LEFT JOIN paused_queues p ON p.queue = w.queue
 WHERE (%(queue)s::text IS NULL OR w.queue = %(queue)s) AND (%(lost_long_ago)s OR w.lost_at IS NULL OR {LOST_LATELY})
 ORDER BY w.queue, w.started_at, w.worker_id
"""

# The index `turns_running` has the running turns and no others: as many as the fleet has slots, at most.
RUNNING: LiteralString = """
SELECT t.worker_id, t.id AS turn_id, t.tenant_id, t.session_id, t.queue, t.attempt, t.started_at, t.lease_until,
       extract(epoch FROM now() - t.started_at)::float8 AS seconds
  FROM turns t
 WHERE t.status = 'RUNNING' AND (%(queue)s::text IS NULL OR t.queue = %(queue)s)
 ORDER BY t.started_at, t.id LIMIT %(limit)s
"""


class WorkerState(StrEnum):
    """What an operator can expect of a worker. Of several that apply, the first one here is shown."""

    LOST = "lost"
    """A relay has given it up, and its turns are taken over."""
    SILENT = "silent"
    """It has not been seen for four thirds of its lease: it was killed, or it can't reach Postgres."""
    DRAINING = "draining"
    """It is stopping: it ends its turns and begins no other."""
    BLOCKED = "blocked"
    """A handler blocks its event loop: none of its turns goes on."""
    STARVED = "starved"
    """Postgres has answered its heartbeat but no other call for a lease: it claims and settles nothing."""
    BROKEN = "broken"
    """Its handler met the same error in each of its first turns: it takes no turns."""
    PAUSED = "paused"
    """An operator has paused its queue."""
    DEAF = "deaf"
    """No receive has returned for `TURNSTILE_DEAF_SECONDS`, and its slots are not all busy."""
    WELL = "well"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWorker:
    """A row of the registry, written by the worker's last heartbeat (`seen_at`)."""

    worker_id: str
    queue: str
    host: str
    pid: int
    version: str
    release: str
    slots: int
    busy: int
    draining: bool
    deaf_for_seconds: float
    blocked_for_seconds: float
    blocked_by: UUID | None
    starved_for_seconds: float
    broken_by: str | None
    lease_seconds: float
    started_at: datetime
    seen_at: datetime
    lost_at: datetime | None
    """When a relay found it lost; None after a later heartbeat."""
    alive: bool
    """Whether its last heartbeat is recent, measured by its own lease."""
    paused: bool
    """Whether its queue is paused now."""
    read_at: datetime
    """The database's time of this read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningTurn:
    """A RUNNING turn, and for how long its present attempt has been running."""

    worker_id: str | None
    turn_id: UUID
    tenant_id: str
    session_id: str
    queue: str
    attempt: int
    started_at: datetime
    lease_until: datetime
    seconds: float


def judge_worker(worker: RegisteredWorker, settings: Settings) -> WorkerState:
    """The worker's state when it was read. `deaf_seconds` comes from the caller's settings; all other values are the
    worker's own."""
    if worker.lost_at is not None:
        return WorkerState.LOST
    if not worker.alive:
        return WorkerState.SILENT
    if worker.draining:
        return WorkerState.DRAINING
    if worker.blocked_for_seconds > 0:
        return WorkerState.BLOCKED
    if worker.starved_for_seconds >= worker.lease_seconds:
        return WorkerState.STARVED
    if worker.broken_by is not None:
        return WorkerState.BROKEN
    if worker.paused:
        return WorkerState.PAUSED
    if worker.deaf_for_seconds >= settings.deaf_seconds:
        return WorkerState.DEAF
    return WorkerState.WELL


async def read_workers(
    database: Database, queue: str | None = None, *, lost_long_ago: bool = False
) -> list[RegisteredWorker]:
    """The registered workers of one queue or of all, by queue and start. Raises DatabaseUnavailableError.

    `lost_long_ago`: also those that were lost more than ten minutes ago. Their rows stay for a day or so.
    """
    rows = await database.fetch(WORKERS, {"queue": queue, "lost_long_ago": lost_long_ago})
    return [RegisteredWorker(**row) for row in rows]


async def read_running(database: Database, queue: str | None, limit: int) -> list[RunningTurn]:
    """The first `limit` RUNNING turns of one queue or of all, those of the earliest start first.

    The worker of a turn may be missing in the registry: it was lost, or it stopped before the turn was taken over.

    Raises DatabaseUnavailableError.
    """
    rows = await database.fetch(RUNNING, {"queue": queue, "limit": limit})
    return [RunningTurn(**row) for row in rows]
