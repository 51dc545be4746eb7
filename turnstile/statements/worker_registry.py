"""Who works: one row per living worker process, written with its heartbeat. For people, and for the length of the nets."""

from dataclasses import asdict, dataclass
from typing import LiteralString

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

SEEN_SECONDS = 40.0
"""By the default settings, see `seen_seconds`."""

# It does not wait for the row: leases are renewed by the same thread. Whoever sits on it is told of the worker later.
ANNOUNCE: LiteralString = """
WITH free AS MATERIALIZED (
    SELECT worker_id FROM workers WHERE worker_id = %(worker_id)s FOR UPDATE SKIP LOCKED
), updated AS (
    UPDATE workers w
       SET busy = %(busy)s, queue_latency_seconds = %(queue_latency_seconds)s, draining = %(draining)s,
           seen_at = clock_timestamp()
      FROM free WHERE w.worker_id = free.worker_id
)
INSERT INTO workers (worker_id, queue, host, pid, slots, busy, queue_latency_seconds, draining)
SELECT %(worker_id)s, %(queue)s, %(host)s, %(pid)s, %(slots)s, %(busy)s, %(queue_latency_seconds)s, %(draining)s
 WHERE NOT EXISTS (SELECT FROM workers WHERE worker_id = %(worker_id)s)
    ON CONFLICT (worker_id) DO NOTHING
"""

WITHDRAW: LiteralString = """
DELETE FROM workers WHERE worker_id = %(worker_id)s OR seen_at < clock_timestamp() - interval '1 day'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A worker process, as it describes itself. `worker_id` is new at every start: a restarted pod keeps its host name."""

    worker_id: str
    queue: str
    host: str
    pid: int
    slots: int
    busy: int
    queue_latency_seconds: float
    draining: bool


def seen_seconds(settings: Settings) -> float:
    """For how long after it was seen a worker counts as alive: it is seen with its heartbeats, which may be a lease apart."""
    return settings.lease_seconds + settings.heartbeat


async def announce(database: Database, record: WorkerRecord) -> None:
    """Writes the worker's row. Raises DatabaseUnavailableError."""
    await database.fetch(ANNOUNCE, asdict(record))


async def withdraw(database: Database, worker_id: str) -> None:
    """Removes a worker that stops in good order, and those that did not, a day after they were last seen.

    Raises DatabaseUnavailableError.
    """
    await database.fetch(WITHDRAW, {"worker_id": worker_id})
