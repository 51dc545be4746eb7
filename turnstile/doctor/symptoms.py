"""What ails turns: the statements of `turnstile doctor`, one for each symptom. They read, and lock nothing.

Each runs alone in a short read-only transaction with a time-out of its own, returns a bounded number of rows and goes by
an index that is small whatever the table's age: of open turns, of FAILED ones, of what is due, or of the newest ids. What
is merely in motion is left out by a grace, and a turn that waits its turn in a busy queue by that queue's dwell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.errors import TurnstileError
from turnstile.statements.head import DUE

MOST = 1000
"""Rows of one symptom at a time."""

SCAN = 50_000
"""How many of the newest turns are looked at where no index knows the sick ones."""

STATEMENT_TIMEOUT_SECONDS = 5


class Symptom(StrEnum):
    """What a row of the status table may suffer from. The values are the codes that the doctor's reports use."""

    RUNNING_PAST_LEASE = "running-past-lease"
    PENDING_WITHOUT_SEND_AT = "pending-without-send-at"
    SEND_OVERDUE = "send-overdue"
    SESSION_STUCK = "session-stuck"
    SESSION_HALTED = "session-halted"
    ATTEMPTS_OVER_BUDGET = "attempts-over-budget"
    FAILED_WITHOUT_DEAD_LETTER = "failed-without-dead-letter"
    DEAD_LETTER_OVERDUE = "dead-letter-overdue"
    REPLIES_WRONG = "replies-wrong"


_COLUMNS: LiteralString = """
    t.id, t.tenant_id, t.session_id, t.queue, t.status, t.generation, t.fence, t.attempt, t.failures, t.crashes,
    t.max_attempts, t.worker_id, t.send_at, t.lease_until, t.error_class
"""

# Where workers say that turns wait long, a wake-up may wait as long before anybody reads it.
_WAITS: LiteralString = """
WITH waits AS MATERIALIZED (
    SELECT w.queue, 2 * least(max(w.dwell_seconds), 900) AS seconds FROM workers w
     WHERE w.seen_at > now() - make_interval(secs => %(seen)s) GROUP BY w.queue
)
"""

_STATEMENTS: dict[Symptom, LiteralString] = {
    Symptom.RUNNING_PAST_LEASE: f"""{_WAITS}
SELECT {_COLUMNS}, t.lease_until AS since FROM turns t LEFT JOIN waits USING (queue)
 WHERE t.status = 'RUNNING'
   AND t.lease_until < now() - make_interval(secs => %(past_lease)s + coalesce(waits.seconds, 0))
 ORDER BY t.lease_until LIMIT %(limit)s""",
    # A constraint forbids it: what is found here came in while that was dropped. Two arms, each with an index.
    Symptom.PENDING_WITHOUT_SEND_AT: f"""
SELECT {_COLUMNS}, t.created_at AS since FROM turns t
 WHERE t.status = 'PENDING' AND t.seq IS NOT NULL AND t.send_at IS NULL
 UNION ALL
SELECT {_COLUMNS}, t.created_at AS since FROM turns t
 WHERE t.status = 'PENDING' AND t.seq IS NULL AND t.send_at IS NULL
 LIMIT %(limit)s""",
    Symptom.SEND_OVERDUE: f"""
SELECT {_COLUMNS}, t.send_at AS since FROM turns t
 WHERE t.send_at < now() - make_interval(secs => %(overdue)s) AND t.status IN ('PENDING', 'RUNNING')
 ORDER BY t.send_at LIMIT %(limit)s""",
    # A head is due since the turn before it ended. Not just the one before: that may have been cancelled while a yet
    # earlier one ran on. Or since something else let it begin (a skip, a hand-back) or put it off (its tenant's cap), which
    # have no time of their own: `sends` begins anew then, and the net doubles with each send, so that `send_at` less all the nets
    # since is that moment. A `send_at` beyond the last of these nets comes from elsewhere, and would hide the head for as long.
    Symptom.SESSION_STUCK: f"""{_WAITS}
SELECT {_COLUMNS}, due.since FROM turns t LEFT JOIN waits USING (queue)
 CROSS JOIN LATERAL (SELECT greatest(%(net)s, waits.seconds) AS seconds) net
 CROSS JOIN LATERAL (
    SELECT CASE WHEN t.send_at <= now() + make_interval(secs => greatest(%(soon)s, net.seconds * n.nets / 2))
                THEN t.send_at - make_interval(secs => net.seconds * (n.nets - 1)) END AS since
      FROM power(2, least(t.sends, 11)) n (nets)) owed
 CROSS JOIN LATERAL (
    SELECT greatest(t.created_at, t.execute_at, t.started_at, owed.since, max(p.finished_at)) AS since FROM (
        SELECT p.finished_at FROM turns p
         WHERE p.tenant_id = t.tenant_id AND p.session_id = t.session_id AND p.seq < t.seq
         ORDER BY p.seq DESC LIMIT 20) p) due
 WHERE t.status = 'PENDING' AND t.seq IS NOT NULL AND {DUE}
   AND t.created_at < now() - make_interval(secs => %(stuck)s)
   AND NOT EXISTS (
    SELECT FROM turns h WHERE h.tenant_id = t.tenant_id AND h.session_id = t.session_id AND h.seq IS NOT NULL
       AND h.seq < t.seq AND h.status IN ('PENDING', 'RUNNING'))
   AND due.since < now() - make_interval(secs => %(stuck)s + coalesce(waits.seconds, 0))
   AND NOT EXISTS (
    SELECT FROM sessions s JOIN turns f ON f.id = s.halted_by
     WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id AND f.status = 'FAILED')
 LIMIT %(limit)s""",
    # By a turn that is FAILED. A session that is halted by anything else is stuck, and nobody can let it go on.
    Symptom.SESSION_HALTED: f"""
SELECT {_COLUMNS}, t.finished_at AS since,
       (SELECT count(*) FROM turns w WHERE w.tenant_id = t.tenant_id AND w.session_id = t.session_id
                                       AND w.seq IS NOT NULL AND w.status IN ('PENDING', 'RUNNING')) AS waiting
  FROM sessions s JOIN turns t ON t.id = s.halted_by
 WHERE s.halted_by IS NOT NULL AND t.status = 'FAILED' ORDER BY t.finished_at LIMIT %(limit)s""",
    # Every claim is charged and ends as a failure, as a crash or refunded; only the one under way is neither. A
    # handler may have a budget of its own, which stands in no table: a turn's own is all that can be held against it.
    Symptom.ATTEMPTS_OVER_BUDGET: f"""
SELECT {_COLUMNS}, coalesce(t.started_at, t.created_at) AS since FROM turns t
  LEFT JOIN unnest(%(queues)s::text[], %(max_crashes)s::int[]) q (queue, max_crashes) ON q.queue = t.queue
 WHERE t.status IN ('PENDING', 'RUNNING') AND t.seq IS NOT NULL
   AND (t.failures >= t.max_attempts OR t.crashes >= q.max_crashes
        OR t.attempt > t.failures + t.crashes + (t.status = 'RUNNING')::int)
 LIMIT %(limit)s""",
    # A handler may give a turn up without a dead letter (G27); only `Reject` can say so. One that halts its session is not
    # given up yet.
    Symptom.FAILED_WITHOUT_DEAD_LETTER: f"""
SELECT {_COLUMNS}, t.finished_at AS since FROM turns t
 WHERE t.status = 'FAILED' AND t.send_at IS NULL AND t.dead_lettered_at IS NULL
   AND t.error_class IS DISTINCT FROM 'Reject'
   AND NOT EXISTS (SELECT FROM sessions s WHERE s.tenant_id = t.tenant_id AND s.session_id = t.session_id
                                            AND s.halted_by = t.id)
 ORDER BY t.finished_at LIMIT %(limit)s""",
    Symptom.DEAD_LETTER_OVERDUE: f"""
SELECT {_COLUMNS}, t.finished_at AS since FROM turns t
 WHERE t.status = 'FAILED' AND t.send_at IS NOT NULL AND t.finished_at < now() - make_interval(secs => %(overdue)s)
 ORDER BY t.finished_at LIMIT %(limit)s""",
    # Status and reply commit together, so no statement ever sees one without the other.
    Symptom.REPLIES_WRONG: f"""
WITH t AS MATERIALIZED (
    SELECT * FROM turns WHERE id >= %(newer_than)s::uuid AND id < %(older_than)s::uuid ORDER BY id DESC LIMIT %(scan)s
)
SELECT {_COLUMNS}, coalesce(t.finished_at, t.created_at) AS since, said.replies
  FROM t CROSS JOIN LATERAL (
    SELECT count(*) AS replies FROM messages m
     WHERE m.turn_id = t.id AND m.role = 'assistant' AND m.kind = 'message') said
 WHERE said.replies <> (t.status = 'SUCCEEDED')::int
 LIMIT %(limit)s""",
}

RUNNING_IN: LiteralString = """
SELECT t.tenant_id, t.session_id FROM unnest(%(tenants)s::text[], %(sessions)s::text[]) x (tenant_id, session_id)
  JOIN turns t USING (tenant_id, session_id) WHERE t.status = 'RUNNING'
"""

LETTERS_SENT: LiteralString = f"""
SELECT {_COLUMNS}, t.dead_lettered_at AS since FROM turns t
 WHERE t.status = 'FAILED' AND t.queue = %(queue)s
   AND t.dead_lettered_at > now() - make_interval(secs => %(kept)s)
   AND t.dead_lettered_at < now() - make_interval(secs => %(overdue)s)
 LIMIT %(limit)s
"""

NOBODY_TO_ANSWER: LiteralString = """
SELECT q.queue, due.since FROM unnest(%(queues)s::text[]) q (queue)
 CROSS JOIN LATERAL (
    SELECT greatest(t.created_at, t.execute_at) AS since FROM turns t
     WHERE t.queue = q.queue AND t.status = 'PENDING' AND t.seq IS NOT NULL
       AND greatest(t.created_at, t.execute_at) < now() - make_interval(secs => %(overdue)s) LIMIT 1) due
 WHERE NOT EXISTS (SELECT FROM workers w WHERE w.queue = q.queue AND NOT w.draining
                      AND w.seen_at > now() - make_interval(secs => %(silent)s))
"""

NOT_RELAYED: LiteralString = """
SELECT d.queue, count(*) AS turns, min(d.send_at) AS since FROM (
    SELECT t.queue, t.send_at FROM turns t WHERE t.send_at < now() - make_interval(secs => %(overdue)s)
     ORDER BY t.send_at LIMIT %(scan)s) d
 GROUP BY d.queue ORDER BY d.queue LIMIT %(limit)s
"""

UNDECLARED: LiteralString = """
SELECT t.queue, count(*) AS turns, min(t.created_at) AS since FROM turns t
 WHERE t.status IN ('PENDING', 'RUNNING') AND t.seq IS NOT NULL AND NOT t.queue = ANY (%(queues)s::text[])
 GROUP BY t.queue ORDER BY t.queue LIMIT %(limit)s
"""


class TooMuchToLookAtError(TurnstileError):
    """A statement took longer than a look at a system under load may take. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SickTurn:
    """A row with a symptom, as it was when it was seen."""

    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    status: str
    generation: int
    fence: int
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    worker_id: str | None
    send_at: datetime | None
    lease_until: datetime | None
    error_class: str | None
    since: datetime | None
    replies: int | None = None
    waiting: int | None = None
    """Open turns of its session."""


async def find_sick(database: Database, symptom: Symptom, terms: Mapping[str, Any]) -> list[SickTurn]:
    """The turns with this symptom, at most MOST. `terms` are the graces in seconds and whatever else a statement names.

    Raises DatabaseUnavailableError or TooMuchToLookAtError.
    """
    rows = await look(database, _STATEMENTS[symptom], {**terms, "limit": MOST, "scan": SCAN})
    return [SickTurn(**row) for row in rows]


async def find_letters_sent(
    database: Database, queue: str, *, kept_seconds: float, overdue_seconds: float
) -> list[SickTurn]:
    """FAILED turns whose dead letter went out, not long ago enough for SQS to have dropped it; at most MOST."""
    terms = {"queue": queue, "kept": kept_seconds, "overdue": overdue_seconds, "limit": MOST}
    return [SickTurn(**row) for row in await look(database, LETTERS_SENT, terms)]


async def find_running(database: Database, sessions: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these (tenant, session) have a RUNNING turn."""
    parameters = {"tenants": [tenant for tenant, _ in sessions], "sessions": [session for _, session in sessions]}
    return {(row["tenant_id"], row["session_id"]) for row in await look(database, RUNNING_IN, parameters)}


async def look(database: Database, statement: LiteralString, parameters: Mapping[str, Any]) -> list[DictRow]:
    """Runs one statement that can't change anything. Raises DatabaseUnavailableError or TooMuchToLookAtError."""
    async with database.connection() as connection:
        try:
            async with connection.transaction():
                await connection.execute("SET TRANSACTION READ ONLY")
                await connection.execute(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_SECONDS}s'")
                return await (await connection.execute(statement, parameters)).fetchall()
        except psycopg.errors.QueryCanceled as error:
            # The server is well: this one question was too large.
            raise TooMuchToLookAtError(f"took longer than {STATEMENT_TIMEOUT_SECONDS} s") from error
