"""Claim: a session's head becomes RUNNING under a new fence and a lease. One statement for many sessions.

A settle claims the session's next turn, too (`statements.settle`).

What a claim guarantees, and how:

- order: it takes the session's head or nothing, whatever the order of the messages;
- exclusion: the partial unique index `turns_running` refuses a second RUNNING turn in a session;
- fencing: `fence` rises with every claim, and every later write of that claim names it;
- attempts are counted here, before the handler runs, so a turn that kills its worker is charged for the attempt.

The statement picks the head with a plain LIMIT 1, then locks it by id and in id order. (ORDER BY seq LIMIT 1 FOR UPDATE
SKIP LOCKED would claim seq 2 while another transaction has seq 1 locked.) It skips locked rows, and reports a skipped due
head as "look again", never as "idle". Leases run by the database's clock. `claim_id` finds the turn of a claim whose
response was lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key, off_index
from turnstile.statements.compensate import COMPENSATE
from turnstile.statements.read_claims import READ_CLAIMS, claimed_turn
from turnstile.statements.session_head import DUE, DUE_OF, OPEN_HEAD
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.error_classes import CRASH_LOOP
from turnstile.turn.status import TurnStatus

EXPIRED_OF: LiteralString = (
    off_index("{of}.status") + " = 'RUNNING' AND {of}.lease_until < now() AND {of}.send_at IS NOT NULL"
)
"""Whether turn `{of}` may be taken over: its lease ran out, and it is marked as lost (`statements.lost_turns`)."""

EXPIRED: LiteralString = EXPIRED_OF.format(of="t")

WITH_THIS_CRASH: LiteralString = "{of}.crashes + (" + off_index("{of}.status") + " = 'RUNNING')::int"
"""How many crashes turn `{of}` has on its record once it is claimed."""

CLAIM: LiteralString = f"""
WITH want AS MATERIALIZED (
    SELECT *
      FROM unnest(%(tenants)s::text[], %(sessions)s::text[], %(claims)s::uuid[], %(most_crashes)s::int[], %(turns)s::uuid[])
               w (tenant_id, session_id, claim_id, most_crashes, turn_id)
), head AS MATERIALIZED (
    SELECT w.claim_id, w.most_crashes, w.turn_id, s.tenant_id IS NOT NULL AS known, s.halted_by, h.id, h.seq, h.queue, h.status,
           h.execute_at, w.tenant_id, w.session_id, h.lease_until, h.send_at, h.crashes
      FROM want w
      LEFT JOIN sessions s ON {by_key("s.tenant_id", "w.tenant_id")} AND s.session_id = w.session_id
      LEFT JOIN LATERAL ({OPEN_HEAD.format(of="w")}) h ON true
), halting AS MATERIALIZED (
    -- Lock order: sessions, then turns. Locks only sessions that this claim may halt, because their head has crashed too often.
    -- A locked session is skipped, because the other claims of the batch would wait with it. The relay wakes its head again.
    SELECT s.tenant_id, s.session_id
      FROM head h JOIN sessions s ON {by_key("s.tenant_id", "h.tenant_id")} AND s.session_id = h.session_id
     WHERE %(halt)s AND h.queue = %(queue)s AND h.status = 'RUNNING' AND h.lease_until < now()
       AND h.crashes + 1 >= %(max_crashes)s
     ORDER BY h.tenant_id, h.session_id FOR NO KEY UPDATE OF s SKIP LOCKED
), due AS MATERIALIZED (
    SELECT h.claim_id, t.id, t.status AS was, t.fence AS lost_fence, t.attempt AS lost_attempt,
           t.worker_id AS lost_worker, greatest(t.queued_at, t.execute_at) AS lost_due, t.started_at AS lost_start,
           CASE WHEN t.status = 'PENDING' THEN 'RUNNING'
                WHEN t.cancel_requested_at IS NOT NULL THEN 'CANCELED'
                WHEN t.crashes + 1 >= %(max_crashes)s THEN 'FAILED'
                ELSE 'RUNNING' END AS verdict
      FROM head h JOIN turns t ON {by_key("t.id", "h.id")} AND t.seq IS NOT DISTINCT FROM h.seq
     WHERE h.halted_by IS NULL AND t.queue = %(queue)s AND ({DUE} OR {EXPIRED})
       AND {WITH_THIS_CRASH.format(of="t")} <= h.most_crashes AND (h.turn_id IS NULL OR h.turn_id = h.id)
       AND (NOT %(halt)s OR t.status = 'PENDING' OR t.crashes + 1 < %(max_crashes)s
            OR EXISTS (SELECT FROM halting x WHERE x.tenant_id = h.tenant_id AND x.session_id = h.session_id))
     ORDER BY h.id FOR NO KEY UPDATE OF t SKIP LOCKED
), claimed AS (
    UPDATE turns t
       SET status = due.verdict,
           attempt = t.attempt + (due.verdict = 'RUNNING')::int,
           crashes = t.crashes + (due.was = 'RUNNING')::int,
           fence = nextval('fence_seq'),
           claim_id = due.claim_id,
           worker_id = %(worker)s,
           lease_until = CASE WHEN due.verdict = 'RUNNING'
                              THEN clock_timestamp() + make_interval(secs => %(lease)s) END,
           started_at = CASE WHEN due.verdict = 'RUNNING' THEN clock_timestamp() ELSE t.started_at END,
           first_started_at = coalesce(t.first_started_at, clock_timestamp()),
           finished_at = CASE WHEN due.verdict <> 'RUNNING' THEN clock_timestamp() END,
           -- A lost attempt costs the turn no time: not its run, and not the takeover (ADR 0003).
           expires_at = t.expires_at
               + CASE WHEN due.was = 'RUNNING' THEN clock_timestamp() - due.lost_start ELSE interval '0' END,
           send_at = CASE WHEN due.verdict = 'FAILED' AND NOT %(halt)s THEN clock_timestamp() END,
           error_class = CASE WHEN due.verdict = 'FAILED' THEN '{CRASH_LOOP}' ELSE t.error_class END,
           error = CASE WHEN due.verdict = 'FAILED' THEN 'its worker was lost in attempt ' || t.attempt ELSE t.error END
      FROM due
     WHERE {by_key("t.id", "due.id")} AND ({DUE} OR {EXPIRED})
    RETURNING t.id, t.tenant_id, t.session_id, t.seq, t.status, t.generation, t.error_class, t.error, t.trace_id,
              due.claim_id, due.was, due.lost_fence, due.lost_attempt, due.lost_worker, due.lost_due, due.lost_start,
              coalesce(t.finished_at, t.started_at) AS lost_at
), lost AS (
    INSERT INTO turn_attempts (turn_id, attempt, fence, generation, worker_id, release, due_at, started_at, finished_at, outcome)
    SELECT id, lost_attempt, lost_fence, generation, lost_worker,
           coalesce((SELECT w.release FROM workers w WHERE {by_key("w.worker_id", "lost_worker")}), ''),
           lost_due, lost_start, lost_at, 'lost'
      FROM claimed WHERE was = 'RUNNING'
), halted AS (
    UPDATE sessions s SET halted_by = c.id, updated_at = clock_timestamp() FROM claimed c
     WHERE %(halt)s AND c.status = 'FAILED'
       AND {by_key("s.tenant_id", "c.tenant_id")} AND s.session_id = c.session_id
), {COMPENSATE.format(failed="claimed")}, heir AS MATERIALIZED (
    -- The worker claims the next head itself; this wake-up is for the case that it dies before.
    SELECT n.id FROM claimed e CROSS JOIN LATERAL (
        SELECT h.id FROM turns h
         WHERE h.tenant_id = e.tenant_id AND h.session_id = e.session_id AND h.seq > e.seq
           AND h.status = 'PENDING' ORDER BY h.seq LIMIT 1) first
      JOIN turns n ON {by_key("n.id", "first.id")}
     WHERE e.status <> 'RUNNING' AND NOT (%(halt)s AND e.status = 'FAILED')
       AND {DUE_OF.format(of="n")}
     FOR NO KEY UPDATE OF n SKIP LOCKED
), woken AS (
    UPDATE turns t SET send_at = clock_timestamp(), sends = 0 FROM heir WHERE {by_key("t.id", "heir.id")}
)
SELECT h.claim_id, c.id AS turn_id, c.tenant_id, c.session_id, c.seq, c.trace_id, c.status, c.error_class,
       CASE WHEN c.was = 'RUNNING' THEN c.lost_worker END AS lost_worker,
       h.known, h.queue = %(queue)s AS ours, {WITH_THIS_CRASH.format(of="h")} AS crashes,
       h.halted_by IS NULL AND h.queue = %(queue)s AND {WITH_THIS_CRASH.format(of="h")} > h.most_crashes
           AND ({DUE_OF.format(of="h")} OR {EXPIRED_OF.format(of="h")}) AS left_over,
       c.id IS NULL AND h.halted_by IS NULL
           AND ({DUE_OF.format(of="h")} OR h.queue = %(queue)s AND {EXPIRED_OF.format(of="h")}) AS due,
       h.status = 'RUNNING' AND h.lease_until >= now() AS running
  FROM head h LEFT JOIN claimed c USING (claim_id)
"""

ANY_CRASHES = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Asks for the head of one session. `claim_id` is new for every request: it finds a claim whose response was lost."""

    tenant_id: str
    session_id: str
    claim_id: UUID
    most_crashes: int = ANY_CRASHES
    """Claims no turn with more crashes than this. If the claim takes over a lost turn, that loss counts as a crash."""
    turn_id: UUID | None = None
    """Claims this turn or none. If another one is the head, and due, the result is HEAD_LOCKED: look again."""


@dataclass(frozen=True, slots=True)
class EndedAtClaim:
    """The claim ended the head instead: its worker was lost once too often, or a cancel came before."""

    turn_id: UUID
    tenant_id: str
    session_id: str
    seq: int
    trace_id: str
    status: TurnStatus
    error_class: str | None


@dataclass(frozen=True, slots=True)
class LeftToTakeover:
    """The head has more crashes than the request allows: the caller needs a place in quarantine first."""

    crashes: int


class NoClaim(StrEnum):
    """Why no turn of a session was claimed."""

    HEAD_LOCKED = "head locked"
    """The head is due or may be taken over, but another transaction has locked its row for a moment."""
    IDLE = "idle"
    """Nothing is due here, or it belongs to another queue."""
    RUNNING = "running"
    """The head is RUNNING, and its lease has not expired."""
    FOREIGN = "foreign"
    """The head is due, but on another queue. Our lock may have made that queue's worker skip it."""
    UNKNOWN = "unknown"
    """No such session: the message is a phantom."""


Claim = ClaimedTurn | EndedAtClaim | LeftToTakeover | NoClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTerms:
    """The parameters that all claims of a worker process share."""

    queue: str
    worker_id: str
    release: str = ""
    """The handler's release: recorded with the attempts that the process settles."""
    lease_seconds: float
    max_crashes: int
    halt: bool = False
    """Whether a FAILED turn of this queue halts its session."""
    compensates: bool = False
    """Whether the handler names a compensation (`on_failed`) for a turn that finally failed."""
    compensation_expires_seconds: float = 900.0


async def claim(database: Database, terms: ClaimTerms, requests: Sequence[ClaimRequest]) -> list[Claim]:
    """Claims the heads of many sessions; returns the results in the order of `requests`.

    Raises DatabaseUnavailableError; the claims may have been made. The call may then be repeated with the same requests, and
    finds the turns that the lost call claimed. It does not report again which turns the lost call ended.
    """
    wanted = {
        "tenants": [request.tenant_id for request in requests],
        "sessions": [request.session_id for request in requests],
        "claims": [request.claim_id for request in requests],
    }
    parameters = {
        **wanted,
        "most_crashes": [request.most_crashes for request in requests],
        "turns": [request.turn_id for request in requests],
        "queue": terms.queue,
        "worker": terms.worker_id,
        "lease": terms.lease_seconds,
        "max_crashes": terms.max_crashes,
        "halt": terms.halt,
        "compensates": terms.compensates,
        "compensation_expires": terms.compensation_expires_seconds,
    }
    found, rows = await database.fetch_pipelined([(CLAIM, parameters), (READ_CLAIMS, wanted)])
    answers = {row["claim_id"]: row for row in found}
    turns = {row["claim_id"]: _with_lost_worker(claimed_turn(row, database.contents), answers) for row in rows}
    # Only READ_CLAIMS finds a claim of an earlier call whose response was lost. Such a claim is as good as a new one.
    return [turns.get(request.claim_id) or _no_turn(answers[request.claim_id]) for request in requests]


def _with_lost_worker(turn: ClaimedTurn, answers: Mapping[UUID, DictRow]) -> ClaimedTurn:
    lost_worker = answers[turn.claim_id]["lost_worker"]
    return turn if lost_worker is None else replace(turn, lost_worker=lost_worker)


def _no_turn(row: DictRow) -> EndedAtClaim | LeftToTakeover | NoClaim:
    if row["turn_id"] is not None and row["status"] != TurnStatus.RUNNING:
        return EndedAtClaim(
            turn_id=row["turn_id"],
            tenant_id=row["tenant_id"],
            session_id=row["session_id"],
            seq=row["seq"],
            trace_id=row["trace_id"],
            status=TurnStatus(row["status"]),
            error_class=row["error_class"],
        )
    if not row["known"]:
        return NoClaim.UNKNOWN
    if row["left_over"]:
        return LeftToTakeover(row["crashes"])
    if not row["due"]:
        return NoClaim.RUNNING if row["running"] else NoClaim.IDLE
    return NoClaim.HEAD_LOCKED if row["ours"] else NoClaim.FOREIGN
