"""The live workers: one row per process, written with its heartbeat. For operators, and for the length of resend deadlines."""

import importlib.metadata
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import LiteralString
from uuid import UUID

from turnstile import distribution
from turnstile.backends.postgres.database import Database

# Times after the worker's last heartbeat, in leases of that worker: the leases of workers may differ.
SILENT_LEASES = 4 / 3
"""From then on a worker counts as silent: a lease and, by default, a heartbeat."""
LOST_LEASES = 2.0
"""From then on a relay reports a worker as lost: its heartbeats may be a lease apart."""
LOST_WITH_TURNS_LEASES = 0.67
"""The same for a worker whose claims have run out: it last renewed them with a heartbeat."""

ALIVE: LiteralString = f"w.seen_at > now() - make_interval(secs => {SILENT_LEASES} * w.lease_seconds)"
"""Whether the worker `w` is alive, as far as anybody knows. The opposite of `silent`."""
HOLDS: LiteralString = "t.id = ANY (w.unrenewed) AND w.seen_at > now() - make_interval(secs => w.lease_seconds)"
"""Whether the worker `w` runs the turn `t`, although it could not renew its lease: it lives, and has said so."""
LOST_LATELY: LiteralString = "w.lost_at > now() - interval '10 min'"
"""Whether a relay has found the worker `w` lost so recently that operators still look for it. NULL: it is not lost."""

# It skips a locked row instead of waiting, because the same thread renews leases. A later heartbeat updates the row.
ANNOUNCE: LiteralString = """
WITH free AS MATERIALIZED (
    SELECT worker_id FROM workers WHERE worker_id = %(worker_id)s FOR UPDATE SKIP LOCKED
), updated AS (
    UPDATE workers w
       SET busy = %(busy)s, queue_latency_seconds = %(queue_latency_seconds)s, draining = %(draining)s,
           deaf_for_seconds = %(deaf_for_seconds)s, blocked_for_seconds = %(blocked_for_seconds)s,
           blocked_by = %(blocked_by)s, broken_by = %(broken_by)s, unrenewed = %(unrenewed)s::uuid[],
           starved_for_seconds = %(starved_for_seconds)s,
           seen_at = clock_timestamp(), lost_at = NULL
      FROM free WHERE w.worker_id = free.worker_id
)
INSERT INTO workers (worker_id, queue, host, pid, version, release, slots, busy, queue_latency_seconds, draining,
                     deaf_for_seconds, blocked_for_seconds, blocked_by, broken_by, unrenewed, starved_for_seconds, lease_seconds)
SELECT %(worker_id)s, %(queue)s, %(host)s, %(pid)s, %(version)s, %(release)s, %(slots)s, %(busy)s, %(queue_latency_seconds)s,
       %(draining)s, %(deaf_for_seconds)s, %(blocked_for_seconds)s, %(blocked_by)s, %(broken_by)s, %(unrenewed)s::uuid[],
       %(starved_for_seconds)s, %(lease_seconds)s
 WHERE NOT EXISTS (SELECT FROM workers WHERE worker_id = %(worker_id)s)
    ON CONFLICT (worker_id) DO NOTHING
"""

WITHDRAW: LiteralString = """
DELETE FROM workers WHERE worker_id = %(worker_id)s OR seen_at < clock_timestamp() - interval '1 day'
"""


@cache
def program_version() -> str:
    """The installed version of Turnstile; empty if it is not installed as a package, as in a zip file.

    It is read once: an upgrade of the files does not change a running process.
    """
    try:
        return importlib.metadata.version(distribution.NAME)
    except importlib.metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What a worker process reports about itself. `worker_id` is new at every start: a restarted pod keeps its host name."""

    worker_id: str
    queue: str
    host: str
    pid: int
    slots: int
    busy: int
    queue_latency_seconds: float
    draining: bool
    lease_seconds: float
    version: str = field(default_factory=program_version)
    release: str = ""
    """The handler's release (`TURNSTILE_RELEASE`)."""
    deaf_for_seconds: float = 0.0
    """How long no receive has returned; 0 in a Lambda function, which receives nothing itself."""
    blocked_for_seconds: float = 0.0
    """How long the event loop has been blocked; 0 for a block that `worker.lifecycle.blocked_loop` does not count."""
    unrenewed: list[UUID] = field(default_factory=list)
    """Turns that the last heartbeat could not renew, because another transaction has locked their rows."""
    blocked_by: UUID | None = None
    """The turn whose handler blocks it; None if no handler does, or it is not known which."""
    starved_for_seconds: float = 0.0
    """How long Postgres has answered the heartbeat but no other call of the process."""
    broken_by: str | None = None
    """The class of the error that its handler met in each of its first turns; None: the handler works, as far as it knows."""


async def announce(database: Database, record: WorkerRecord) -> None:
    """Writes the worker's row. Raises DatabaseUnavailableError."""
    await database.fetch(ANNOUNCE, asdict(record))


async def withdraw(database: Database, worker_id: str) -> None:
    """Removes the row of a worker that stops normally, and the rows of all workers last seen more than a day ago.

    Raises DatabaseUnavailableError.
    """
    await database.fetch(WITHDRAW, {"worker_id": worker_id})
