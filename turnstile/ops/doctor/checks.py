"""The checks of `turnstile doctor`: each code, its meaning, what to do, and the statement that finds it.

A code exists because an operator acts on it, and no other code asks for the same act. There is no code for what the constraints
forbid, nor for what only a defect can cause: the checker of the proof runs looks for that (`tests/proof/checker`).

A statement returns a row for each finding: `subject`, `since` and `detail`, and for a turn its ids and its queue. It uses an
index of what is open, due or halted, however large the table is, and returns LIMIT rows at most.
"""

from typing import LiteralString

from turnstile.ops.doctor.check import Check, Remedy, Severity
from turnstile.ops.doctor.progress_checks import PROGRESS_CHECKS
from turnstile.statements.session_head import DUE
from turnstile.statements.submit import QUEUE_LATENCY
from turnstile.statements.worker_registry import ALIVE, LOST_LATELY

LIMIT = 1000
"""Findings of one check in one run, at most."""

FRUITLESS_SENDS = 4
"""After this many wake-ups a due head counts as stuck: with resend deadlines of 60 s after 8 minutes, later in a long
queue."""

_SCAN: LiteralString = "50000"

_TURN: LiteralString = "t.id::text AS subject, t.id::text AS turn_id, t.tenant_id, t.session_id, t.queue"

_NOT_PAUSED: LiteralString = "NOT EXISTS (SELECT FROM paused_queues p WHERE p.queue = t.queue)"

_MOST_TURNS_OF_A_TRACE: LiteralString = "10000"
"""A trace with this many turns is reported. A turn may start 1,000 children."""

# Handlers that keep starting handlers: the traces of open children, 50,000 of them at most, each counted up to the bound.
_TRACE_GROWS: LiteralString = f"""
SELECT o.trace_id AS subject, g.since, 'turns: {_MOST_TURNS_OF_A_TRACE} or more' AS detail
  FROM (SELECT DISTINCT d.trace_id FROM (
            SELECT t.trace_id FROM turns t
             WHERE t.status IN ('PENDING', 'RUNNING') AND t.seq IS NOT NULL AND t.parent_turn_id IS NOT NULL LIMIT 50000) d) o
 CROSS JOIN LATERAL (
        SELECT count(*) AS turns, min(m.created_at) AS since
          FROM (SELECT t.created_at FROM turns t WHERE t.trace_id = o.trace_id LIMIT {_MOST_TURNS_OF_A_TRACE}) m) g
 WHERE g.turns = {_MOST_TURNS_OF_A_TRACE} LIMIT %(limit)s
"""

# A relay marks a lost turn once its renewals have worked for a lease, and a worker takes it over within a resend interval. The
# lease is that of the turn's worker; without its row, that of the settings. A takeover waits for a free slot, so a busy queue
# gets twice its queue latency on top.
_RUNNING_PAST_LEASE: LiteralString = f"""
SELECT {_TURN}, t.lease_until AS since, 'worker ' || coalesce(t.worker_id, 'unknown') || ', attempt ' || t.attempt AS detail
  FROM turns t LEFT JOIN workers w ON w.worker_id = t.worker_id
 WHERE t.status = 'RUNNING'
   AND t.lease_until < now() - make_interval(
        secs => coalesce(w.lease_seconds, %(lease)s) + %(takeover)s + 2 * {QUEUE_LATENCY.format(queue="t.queue")})
   AND {_NOT_PAUSED}
 ORDER BY t.lease_until LIMIT %(limit)s
"""

# `xmax` of a row is the transaction that has locked it last, and each open one has a lock on its own id.
_NOT_LOCKED: LiteralString = """
NOT t.xmax = ANY (ARRAY(SELECT l.transactionid FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.granted))
"""

# All queues, declared here or not: a queue that no relay declares shows only here. The relays pass over a locked row, and
# `rows-locked` is about that.
_SEND_OVERDUE: LiteralString = f"""
SELECT d.queue AS subject, d.queue, min(d.send_at) AS since,
       'messages: ' || count(*) || CASE WHEN sum(count(*)) OVER () >= {_SCAN} THEN ' or more' ELSE '' END
        || ', workers of the queue that are alive: ' || (
        SELECT count(*) FROM workers w WHERE w.queue = d.queue AND {ALIVE}) AS detail
  FROM (
    SELECT t.queue, t.send_at FROM turns t WHERE t.send_at < now() - make_interval(secs => %(overdue)s)
       AND (t.status = 'FAILED' OR {_NOT_PAUSED}) AND {_NOT_LOCKED}
     ORDER BY t.send_at LIMIT {_SCAN}) d
 GROUP BY d.queue ORDER BY d.queue LIMIT %(limit)s
"""

# A session that is halted by a turn that is not FAILED was changed by hand: no command resumes it, so it counts as stuck.
_SESSION_STUCK: LiteralString = f"""
SELECT {_TURN}, greatest(t.created_at, t.execute_at) AS since, t.sends || ' wake-ups brought no worker' AS detail
  FROM turns t
 WHERE t.status = 'PENDING' AND t.seq IS NOT NULL AND {DUE} AND t.sends >= {FRUITLESS_SENDS}
   AND NOT EXISTS (
    SELECT FROM turns h WHERE h.tenant_id = t.tenant_id AND h.session_id = t.session_id AND h.seq IS NOT NULL
       AND h.seq < t.seq AND h.status IN ('PENDING', 'RUNNING'))
   AND NOT EXISTS (
    SELECT FROM sessions s JOIN turns f ON f.id = s.halted_by
     WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id AND f.status = 'FAILED')
 LIMIT %(limit)s
"""

_SESSION_HALTED: LiteralString = f"""
SELECT {_TURN}, t.finished_at AS since,
       coalesce(t.error_class, 'unknown') || ', turns that wait behind it: ' || (
        SELECT count(*) FROM turns w WHERE w.tenant_id = t.tenant_id AND w.session_id = t.session_id
           AND w.seq IS NOT NULL AND w.status IN ('PENDING', 'RUNNING')) AS detail
  FROM sessions s JOIN turns t ON t.id = s.halted_by
 WHERE s.halted_by IS NOT NULL AND t.status = 'FAILED' ORDER BY t.finished_at LIMIT %(limit)s
"""

_ERASURE_OPEN: LiteralString = """
SELECT coalesce('session ' || e.session_id, 'all sessions') || ' of tenant ' || e.tenant_id AS subject, e.requested_at AS since,
       'turns erased so far: ' || e.turns AS detail
  FROM erasures e
 WHERE e.finished_at IS NULL AND e.part_of IS NULL AND e.requested_at < now() - interval '1 hour'
 ORDER BY e.requested_at LIMIT %(limit)s
"""

# `since` is the last heartbeat of any worker, if one is on record. A paused queue needs no worker.
_NO_WORKER: LiteralString = f"""
SELECT q.queue AS subject, q.queue, '' AS detail,
       coalesce((SELECT max(w.seen_at) FROM workers w WHERE w.queue = q.queue), due.since) AS since
  FROM unnest(%(queues)s::text[]) q (queue)
 CROSS JOIN LATERAL (
    SELECT greatest(t.created_at, t.execute_at) AS since FROM turns t
     WHERE t.queue = q.queue AND t.status = 'PENDING' AND t.seq IS NOT NULL
       AND greatest(t.created_at, t.execute_at) < now() - make_interval(secs => %(overdue)s) LIMIT 1) due
 WHERE NOT EXISTS (SELECT FROM workers w WHERE w.queue = q.queue AND NOT w.draining AND {ALIVE})
   AND NOT EXISTS (SELECT FROM paused_queues p WHERE p.queue = q.queue)
 LIMIT %(limit)s
"""

# All queues, declared here or not: a worker may be lost that nobody has replaced. `since` is of the newest.
_WORKERS_LOST: LiteralString = f"""
SELECT w.queue AS subject, w.queue, max(w.lost_at) AS since,
       'in the last ten minutes: ' || count(*)
           || ', the newest: ' || (array_agg(w.worker_id ORDER BY w.lost_at DESC))[1] AS detail
  FROM workers w WHERE {LOST_LATELY}
 GROUP BY w.queue ORDER BY w.queue LIMIT %(limit)s
"""

_QUEUE_PAUSED: LiteralString = """
SELECT p.queue AS subject, p.queue, p.paused_at AS since, 'by ' || p.paused_by || coalesce(': ' || p.reason, '') AS detail
  FROM paused_queues p ORDER BY p.queue LIMIT %(limit)s
"""

_WEBHOOKS_OVERDUE: LiteralString = """
SELECT 'webhooks' AS subject, min(w.due_at) AS since,
       'webhooks: ' || count(*) || CASE WHEN count(*) >= %(limit)s THEN ' or more' ELSE '' END AS detail FROM (
    SELECT due_at FROM webhooks WHERE due_at < now() - make_interval(secs => %(overdue)s) ORDER BY due_at LIMIT %(limit)s) w
HAVING count(*) > 0
"""

_ERROR, _WARNING = Severity.ERROR, Severity.WARNING

CHECKS: tuple[Check, ...] = (
    Check(
        "service-unreachable",
        _ERROR,
        "this service can't be used: it does not respond, or refuses calls",
        "see the reason and docs/runbooks/{page}",
        blinding=True,
    ),
    Check(
        "server-too-old",
        _ERROR,
        "no process works with this server; the tables were not checked",
        "upgrade the server, or set DATABASE_URL to another one",
        blinding=True,
    ),
    Check(
        "not-looked-at",
        _WARNING,
        "this could not be checked completely",
        "act on the reason, then run the check again",
        blinding=True,
    ),
    Check(
        "schema-revision",
        _ERROR,
        "the tables are of another version than this program",
        "see the reason; do nothing if you went back to this program and the newer tables serve it",
    ),
    Check(
        "table-locked",
        _ERROR,
        "a transaction has locked these tables, or waits to lock them: until it ends, nothing is written to them",
        "in psql, as the database's owner: `SELECT pg_terminate_backend({subject})`, then check the tables again",
        blinding=True,
    ),
    Check(
        "rows-locked",
        _ERROR,
        "a transaction that stays open may have locked rows of these tables: no worker and no relay moves such a turn",
        "in psql, as the database's owner: `SELECT pg_terminate_backend({subject})`",
    ),
    Check(
        "redis-refuses",
        _ERROR,
        "this Redis responds but refuses writes: workers go on without it",
        "see docs/runbooks/redis-down.md for NOREPLICAS, OOM, READONLY",
    ),
    Check(
        "redis-slow",
        _ERROR,
        "this Redis responds later than workers wait for it: they go on without it",
        "see docs/runbooks/redis-down.md; if this Redis is far from here, check from the network of the workers",
    ),
    Check(
        "foreign-lock",
        _WARNING,
        "this session lock was not set by a worker: it has no time to live, or one of more than two leases",
        "find out who writes to Redis, change its password, and delete the key",
    ),
    Check(
        "clocks-differ",
        _WARNING,
        "the clocks of the database and of this machine differ; all times are the database's",
        "compare both with a third clock, and correct the wrong one by NTP",
    ),
    Check(
        "queue-missing",
        _ERROR,
        "this queue does not exist in SQS",
        "create it with `turnstile queues create` or Terraform",
    ),
    Check(
        "fences-behind",
        _ERROR,
        "Redis has seen higher fences than Postgres issues: the database was restored, or its clock was set back",
        "start the workers: after a restore, this corrects it; if it stays, correct the clock of the database server",
        Remedy.ADVANCE,
    ),
    *PROGRESS_CHECKS,
    Check(
        "send-overdue",
        _ERROR,
        "messages of this queue are due and have not been sent",
        "see the log of its workers and relays: relay.not_sent says why SQS accepted none; "
        "if there is none, start a worker or `turnstile relay` that declares the queue",
        statement=_SEND_OVERDUE,
    ),
    Check(
        "no-worker",
        _ERROR,
        "turns of this queue are due, and no worker of it is alive",
        "start a worker: `turnstile worker --queue {queue}`",
        statement=_NO_WORKER,
    ),
    Check(
        "workers-lost",
        _WARNING,
        "workers of this queue died or vanished without a shutdown",
        "see `turnstile workers --queue {queue}`, and docs/runbooks/deaf-or-silent-worker.md",
        statement=_WORKERS_LOST,
    ),
    Check(
        "queue-paused",
        _WARNING,
        "operators have paused the queue: its turns do not begin",
        "`turnstile queues resume {queue}`, once the reason for the pause is gone",
        statement=_QUEUE_PAUSED,
    ),
    Check(
        "running-past-lease",
        _ERROR,
        "its lease ran out, and no worker has taken the turn over",
        "see `turnstile why {turn}`; check that a worker and a relay run; the log says takeover.forbidden while renewals fail",
        Remedy.WAKE,
        statement=_RUNNING_PAST_LEASE,
    ),
    Check(
        "session-stuck",
        _ERROR,
        "the session's next turn is due, and no worker takes it",
        "see `turnstile why {turn}`; then search the workers' log for the session",
        Remedy.WAKE,
        statement=_SESSION_STUCK,
    ),
    Check(
        "webhooks-overdue",
        _WARNING,
        "completion webhooks are due, and no relay delivers them",
        "set TURNSTILE_WEBHOOK_HOSTS for the relay's process, too",
        statement=_WEBHOOKS_OVERDUE,
    ),
    Check(
        "trace-grows",
        _WARNING,
        "turns of this trace keep starting children",
        "if this is not intended: repeat `turnstile cancel --trace {subject}` until no open turn matches",
        statement=_TRACE_GROWS,
    ),
    Check(
        "erasure-open",
        _WARNING,
        "the erasure was requested more than an hour ago, and something is left",
        "see docs/runbooks/erase.md: a turn runs, Redis is away (erasure.redis_away), or no relay runs",
        statement=_ERASURE_OPEN,
    ),
    Check(
        "session-halted",
        _WARNING,
        "the turn failed and halts its session",
        "`turnstile retry {turn}` or `turnstile skip {turn}`",
        statement=_SESSION_HALTED,
    ),
    Check(
        "dead-letters-waiting",
        _WARNING,
        "dead letters of FAILED turns are on the DLQ",
        "`turnstile dlq list --queue {queue}`, then `turnstile redrive` or `turnstile dlq drop` with the same --queue",
    ),
    Check(
        "dead-letters-outlived",
        _WARNING,
        "messages on the DLQ are obsolete: their turns have moved on",
        "the next redrive deletes them; for moved_by_sqs, find out why they were received so often",
        Remedy.SWEEP,
    ),
    Check(
        "dead-letters-unexplained",
        _WARNING,
        "messages on the DLQ belong to no known turn: malformed, of another environment, of a restored database",
        "`turnstile dlq list --messages --queue {queue}`, then `turnstile dlq drop --malformed --queue {queue}`; "
        "for those of unknown turns, the same with --unknown",
    ),
    Check(
        "redrive-policy",
        _WARNING,
        "the queue's RedrivePolicy moves wake-ups too early, or to another DLQ",
        "set maxReceiveCount to 1000, and the target to the declared DLQ",
    ),
    Check(
        "idle-in-transaction-timeout",
        _WARNING,
        "an idle transaction may lock rows of turns without a time limit",
        "in psql: `ALTER DATABASE {subject} SET idle_in_transaction_session_timeout = '1min'`, or `ALTER ROLE` for each",
    ),
)
BY_CODE = {check.code: check for check in CHECKS}
