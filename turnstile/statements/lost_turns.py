"""Lost turns: they are RUNNING, and their lease expired because their worker is gone.

The relay marks them (`send_at` on a RUNNING row), and only a marked turn may be taken over (`statements.claim:EXPIRED`). So only
a process whose own renewals work decides whether an expired lease means a lost worker (`relay.renewal_evidence`). A turn whose
row was locked when its worker wanted to renew it is not lost while the worker says so (`statements.worker_registry:HOLDS`). A
worker that comes back and renews its lease removes the mark (`statements.renew_lease`). Workers look for marked turns of their
queue every second and take them over while they have free slots (`worker.takeover`). For a queue without resident workers, the
relay sends wake-ups.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import UUID

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import INDEXED_STATUS, by_key
from turnstile.statements.session_head import DUE, IS_RUNNING
from turnstile.statements.worker_registry import HOLDS, LOST_LEASES, LOST_WITH_TURNS_LEASES

OVER: LiteralString = "t.lease_until < least(now(), %(by)s::timestamptz)"

# It also returns the workers that it is the first to find lost (`lost_at`), with their turns that were just marked; and the
# owners of marked turns that are no longer registered, each time that their turns are marked.
MARK_LOST: LiteralString = f"""
WITH lost AS MATERIALIZED (
    SELECT t.id FROM turns t
     WHERE t.status = 'RUNNING' AND {OVER} AND t.send_at IS NULL
       AND NOT EXISTS (SELECT FROM workers w
                        WHERE w.worker_id = t.worker_id AND ({HOLDS} OR w.lease_seconds > %(proven)s))
     LIMIT %(limit)s FOR NO KEY UPDATE OF t SKIP LOCKED
), marked AS (
    UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM lost
     WHERE {by_key("t.id", "lost.id")} AND {IS_RUNNING} AND {OVER}
    RETURNING t.worker_id, t.queue
), owners AS MATERIALIZED (
    SELECT m.worker_id, m.queue, count(*) AS turns FROM marked m GROUP BY m.worker_id, m.queue
), gone AS MATERIALIZED (
    SELECT w.worker_id FROM workers w
     WHERE w.lost_at IS NULL AND w.seen_at <= now() - make_interval(secs => {LOST_WITH_TURNS_LEASES} * w.lease_seconds)
       AND (w.seen_at < now() - make_interval(secs => {LOST_LEASES} * w.lease_seconds)
            OR EXISTS (SELECT FROM owners o WHERE o.worker_id = w.worker_id))
       FOR NO KEY UPDATE SKIP LOCKED
), found AS (
    UPDATE workers w SET lost_at = clock_timestamp() FROM gone WHERE w.worker_id = gone.worker_id AND w.lost_at IS NULL
    RETURNING w.worker_id, w.queue
)
SELECT f.worker_id, f.queue, (SELECT coalesce(sum(o.turns), 0) FROM owners o WHERE o.worker_id = f.worker_id)::int AS turns
  FROM found f
 UNION ALL
SELECT o.worker_id, o.queue, o.turns::int FROM owners o
 WHERE NOT EXISTS (SELECT FROM workers w WHERE w.worker_id = o.worker_id)
 ORDER BY 1, 2
"""

ANY_LOST: LiteralString = """
SELECT EXISTS (SELECT FROM turns WHERE status = 'RUNNING' AND lease_until < now() AND send_at IS NULL) AS found
"""

# The predicate of the index `turns_to_take_over`: lost turns, and waiting ones that have crashed a worker before.
TO_TAKE_OVER: LiteralString = f"""({INDEXED_STATUS} = 'RUNNING' AND t.send_at IS NOT NULL
        OR {INDEXED_STATUS} = 'PENDING' AND t.crashes > 0)"""

# Fewest crashes first: a turn that must run alone waits for the others.
FIND_LOST: LiteralString = f"""
SELECT t.id AS turn_id, t.tenant_id, t.session_id, t.trace_id, t.crashes + ({IS_RUNNING})::int AS crashes
  FROM turns t
 WHERE t.queue = %(queue)s AND t.tenant_id <> ALL (%(but_tenants)s::text[])
   AND {TO_TAKE_OVER} AND ({DUE} OR {IS_RUNNING} AND t.lease_until < now())
 ORDER BY t.crashes, t.id LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class LostWorker:
    """A lost worker: some of its turns have just been marked, or it is found lost for the first time."""

    worker_id: str
    queue: str
    turns: int
    """How many were marked."""


async def mark_lost(database: Database, by: datetime, proven_seconds: float, limit: int) -> list[LostWorker]:
    """Marks turns whose lease was over before `by`, in the database's time, at most `limit`.

    It spares turns of workers whose lease is longer than `proven_seconds`. Raises DatabaseUnavailableError.
    """
    rows = await database.fetch(MARK_LOST, {"by": by, "proven": proven_seconds, "limit": limit})
    return [LostWorker(**row) for row in rows]


@dataclass(frozen=True, slots=True)
class LostTurn:
    """A turn that a worker should take over."""

    turn_id: UUID
    tenant_id: str
    session_id: str
    trace_id: str
    crashes: int
    """Its crashes at the start of the next run, this loss included."""


async def find_lost(database: Database, queue: str, limit: int, *, but_tenants: Sequence[str] = ()) -> list[LostTurn]:
    """The turns of the queue to take over, except those of `but_tenants`. Raises DatabaseUnavailableError."""
    parameters = {"queue": queue, "limit": limit, "but_tenants": list(but_tenants)}
    rows = await database.fetch(FIND_LOST, parameters)
    return [LostTurn(**row) for row in rows]
