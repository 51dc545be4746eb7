"""The checks of whether turns end, and of workers that take none or end none."""

from typing import LiteralString

from turnstile.ops.doctor.check import Check, Severity
from turnstile.queries.ended_turns import ENDED_QUEUES
from turnstile.statements.worker_registry import ALIVE

MOST_FAILING_PERCENT = 20
"""Largest percentage of FAILED turns among those that ended recently."""

FEWEST_FAILURES = 3
"""Fewer failures are not reported as a share: each is a dead letter, which has its own code."""

_FAILING: LiteralString = f"""
SELECT e.queue AS subject, e.queue, min(e.finished_at) FILTER (WHERE e.status = 'FAILED') AS since,
       count(*) FILTER (WHERE e.status = 'FAILED') || ' of ' || count(*) || ', most often '
           || coalesce(mode() WITHIN GROUP (ORDER BY e.error_class) FILTER (WHERE e.status = 'FAILED'), 'unknown') AS detail
  FROM (SELECT t.* FROM turns t WHERE t.queue = ANY ({ENDED_QUEUES}) AND t.finished_at > now() - interval '5 min' OFFSET 0) e
 WHERE e.status IN ('SUCCEEDED', 'FAILED') GROUP BY e.queue
HAVING count(*) FILTER (WHERE e.status = 'FAILED') >= {FEWEST_FAILURES}
   AND 100 * count(*) FILTER (WHERE e.status = 'FAILED') > {MOST_FAILING_PERCENT} * count(*)
 ORDER BY e.queue LIMIT %(limit)s
"""

# The states of `turnstile workers` (turnstile/queries/workers.py:judge_worker), once they have lasted.
_WORKER: LiteralString = """
SELECT w.worker_id AS subject, w.queue, {since} AS since, 'turns that it runs: ' || (
        SELECT count(*) FROM turns r WHERE r.status = 'RUNNING' AND r.worker_id = w.worker_id) AS detail
  FROM workers w
 WHERE w.lost_at IS NULL AND {lasting} ORDER BY w.seen_at LIMIT %(limit)s
"""

_AT_WORK: LiteralString = f"{ALIVE} AND NOT w.draining"

_BLOCKED: LiteralString = _WORKER.format(
    since="w.seen_at - make_interval(secs => w.blocked_for_seconds)",
    lasting=f"{_AT_WORK} AND w.blocked_for_seconds >= %(margin)s",
)

_STARVED: LiteralString = _WORKER.format(
    since="w.seen_at - make_interval(secs => w.starved_for_seconds)",
    lasting=f"{_AT_WORK} AND w.blocked_for_seconds = 0 AND w.starved_for_seconds >= w.lease_seconds",
)

_BROKEN: LiteralString = _WORKER.format(since="w.started_at", lasting=f"{_AT_WORK} AND w.broken_by IS NOT NULL")

_DEAF: LiteralString = _WORKER.format(
    since="w.seen_at - make_interval(secs => w.deaf_for_seconds)",
    lasting=f"{_AT_WORK} AND w.blocked_for_seconds = 0 AND w.starved_for_seconds < w.lease_seconds"
    " AND w.deaf_for_seconds >= %(deaf)s"
    " AND NOT EXISTS (SELECT FROM paused_queues p WHERE p.queue = w.queue)",
)

_SILENT: LiteralString = _WORKER.format(since="w.seen_at", lasting=f"NOT {ALIVE}")

_PAGE = "see `turnstile workers --queue {queue}`, and docs/runbooks/deaf-or-silent-worker.md"

PROGRESS_CHECKS: tuple[Check, ...] = (
    Check(
        "standstill",
        Severity.ERROR,
        "turns of this queue wait, and none has ended for five minutes",
        "see `turnstile stats --queue {queue}` and `turnstile workers --queue {queue}`; docs/runbooks/backlog-grows.md",
    ),
    Check(
        "failing",
        Severity.ERROR,
        "more than a fifth of the turns that ended in the last five minutes have FAILED",
        "see `turnstile dlq list --groups --queue {queue}`, and docs/runbooks/bad-deploy.md",
        statement=_FAILING,
    ),
    Check(
        "worker-blocked",
        Severity.ERROR,
        "a handler blocks the event loop of this worker: all its turns are stopped",
        _PAGE,
        statement=_BLOCKED,
    ),
    Check(
        "worker-starved",
        Severity.ERROR,
        "Postgres answers this worker's heartbeat but no other call: the worker claims and settles nothing",
        "stop the worker, so that another process takes its place; see docs/runbooks/deaf-or-silent-worker.md",
        statement=_STARVED,
    ),
    Check(
        "worker-broken",
        Severity.ERROR,
        "this worker's handler met the same error in each of its first turns, so the worker takes no turns",
        "see `turnstile workers --queue {queue}`, and docs/runbooks/bad-deploy.md",
        statement=_BROKEN,
    ),
    Check(
        "worker-deaf",
        Severity.ERROR,
        "this worker has free slots but receives nothing",
        _PAGE,
        statement=_DEAF,
    ),
    Check(
        "worker-silent",
        Severity.ERROR,
        "this worker's heartbeats have stopped, and no relay has declared it lost yet",
        _PAGE,
        statement=_SILENT,
    ),
)
