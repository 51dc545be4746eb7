"""Settle: the only statement that ends a claim. It claims the session's next turn in the same round trip.

At most one settlement per claim, and only by the newest claim: the row changes only where fence and RUNNING still
match. (Rows guarded by status alone let a stalled worker settle its successor's run.) Status, reply, attempt record and
what is owed next (`send_at`) commit together, so nothing can be half done.

The next claim reads the rows that the settle RETURNs. Without that, the partial unique index would still see the old
RUNNING row. Both skip locked rows: otherwise the worker's other settles would wait behind one. A settle that changed no
row is re-read, never guessed: the turn is still ours and the settle is retried, another claim has it, or an earlier
call's response was lost (`turn_attempts`).

On a queue that halts, a FAILED turn halts its session instead of owing a dead letter. `turnstile retry` and `skip` are the
ways out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.backends.postgres.array_literal import array_literal
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key
from turnstile.sealing.contents import Contents
from turnstile.sealing.place import ERROR, PARTIAL, REPLY, TRACEBACK, Place
from turnstile.statements.claim import Claim, ClaimTerms, NoClaim
from turnstile.statements.compensate import COMPENSATE_FAILED
from turnstile.statements.read_claims import READ_CLAIMS, claimed_turn
from turnstile.statements.session_head import DUE, IS_RUNNING
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import StoredMessage
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode

SETTLE: LiteralString = f"""
WITH s AS MATERIALIZED (
    SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(statuses)s::text[], %(outcomes)s::text[],
                         %(replies)s::json[], %(afters)s::float8[], %(refunds)s::bool[], %(faults)s::bool[],
                         %(error_classes)s::text[], %(errors)s::text[], %(dead_letters)s::bool[], %(mores)s::bool[],
                         %(claims)s::uuid[], %(joinings)s::text[], %(join_policies)s::text[], %(partials)s::json[],
                         %(tracebacks)s::text[])
        s (id, fence, status, outcome, reply, after, refund, fault, error_class, error, dead_letter, more,
           next_claim_id, joining, join_policy, partial, traceback)
), failing AS MATERIALIZED (
    SELECT t.tenant_id, t.session_id FROM s JOIN turns t ON {by_key("t.id", "s.id")} WHERE %(halt)s AND s.status = 'FAILED'
), halting AS MATERIALIZED (
    -- Lock order: sessions, then turns. Locks only sessions that may be halted: none on a queue that does not halt.
    SELECT ss.tenant_id, ss.session_id
      FROM failing f JOIN sessions ss ON {by_key("ss.tenant_id", "f.tenant_id")} AND ss.session_id = f.session_id
     ORDER BY f.tenant_id, f.session_id FOR NO KEY UPDATE OF ss SKIP LOCKED
), mine AS MATERIALIZED (
    SELECT t.id, t.cancel_requested_at IS NOT NULL AS canceled, t.attempt, t.execute_at
      FROM s JOIN turns t ON {by_key("t.id", "s.id")}
     WHERE t.fence = s.fence AND {IS_RUNNING}
       AND (NOT %(halt)s OR s.status <> 'FAILED'
            OR EXISTS (SELECT FROM halting x WHERE x.tenant_id = t.tenant_id AND x.session_id = t.session_id))
     ORDER BY s.id FOR NO KEY UPDATE OF t SKIP LOCKED
), verdict AS MATERIALIZED (
    -- An acknowledged cancel wins over every outcome, also if the handler finished a moment earlier.
    SELECT s.*, attempt, execute_at, CASE WHEN canceled THEN 'CANCELED' ELSE status END AS final,
           CASE WHEN canceled THEN 'canceled' ELSE outcome END AS final_outcome
      FROM s JOIN mine USING (id)
), done AS (
    UPDATE turns t
       SET status = v.final,
           attempt = t.attempt - (v.refund AND v.final = 'PENDING')::int,
           failures = t.failures + v.fault::int,
           -- Its handler came to an end, so the turn did not cause the earlier crashes.
           crashes = CASE WHEN v.final_outcome IN ('retried', 'snoozed', 'joined') THEN 0 ELSE t.crashes END,
           lease_until = NULL,
           execute_at = CASE WHEN v.final = 'PENDING' AND v.after > 0
                             THEN clock_timestamp() + make_interval(secs => v.after)
                             ELSE t.execute_at END,
           send_at = CASE WHEN v.final = 'PENDING' THEN clock_timestamp() + make_interval(secs => v.after)
                          WHEN v.final = 'FAILED' AND v.dead_letter AND NOT %(halt)s THEN clock_timestamp() END,
           sends = 0,
           joining = CASE WHEN v.final = 'PENDING' THEN v.joining::uuid[] END,
           join_policy = CASE WHEN v.final = 'PENDING' THEN v.join_policy END,
           finished_at = CASE WHEN v.final <> 'PENDING' THEN clock_timestamp() END,
           error_class = v.error_class,
           -- The reason of a snooze or a hand-back is only in the attempt: the turn has no error.
           error = CASE WHEN v.outcome NOT IN ('snoozed', 'released') THEN v.error END
      FROM verdict v
     WHERE {by_key("t.id", "v.id")} AND t.fence = v.fence AND {IS_RUNNING}
    RETURNING t.id, t.tenant_id, t.session_id, t.seq, t.status, t.fence, t.generation, t.worker_id, t.started_at,
              greatest(t.queued_at, v.execute_at) AS due_at, v.attempt, clock_timestamp() AS settled_at,
              v.final_outcome, v.error_class, v.error, v.traceback, v.reply, v.partial, v.more,
              v.next_claim_id
), halted AS (
    UPDATE sessions ss SET halted_by = d.id, updated_at = clock_timestamp() FROM done d
     WHERE %(halt)s AND d.status = 'FAILED'
       AND {by_key("ss.tenant_id", "d.tenant_id")} AND ss.session_id = d.session_id
), answered AS (
    INSERT INTO messages (turn_id, ordinal, role, content)
    SELECT id, (SELECT coalesce(max(m.ordinal), -1) + 1 FROM messages m WHERE m.turn_id = done.id), 'assistant', reply
      FROM done WHERE status = 'SUCCEEDED'
    RETURNING turn_id, ordinal, role, created_at AS replied_at
), broken_off AS (
    -- The partial reply of a stopped turn. Its kind keeps it out of the history.
    INSERT INTO messages (turn_id, ordinal, role, kind, content)
    SELECT id, (SELECT coalesce(max(m.ordinal), -1) + 1 FROM messages m WHERE m.turn_id = done.id), 'assistant', 'partial',
           partial
      FROM done WHERE status = 'CANCELED' AND partial IS NOT NULL
), attempted AS (
    -- With the time of the update: this insert may run after the next turn has been claimed.
    INSERT INTO turn_attempts (turn_id, attempt, fence, generation, worker_id, release, due_at, started_at, finished_at,
                               outcome, error_class, error, traceback)
    SELECT id, attempt, fence, generation, worker_id, %(release)s, due_at, started_at, settled_at, final_outcome, error_class,
           error, traceback FROM done
), head AS MATERIALIZED (
    SELECT d.next_claim_id, d.more AND h.queue = %(queue)s AND h.crashes = 0 AS mine, h.id
      FROM done d
      JOIN sessions ss ON {by_key("ss.tenant_id", "d.tenant_id")} AND ss.session_id = d.session_id
      CROSS JOIN LATERAL (
          SELECT h.id, h.queue, h.crashes FROM turns h
           WHERE h.tenant_id = d.tenant_id AND h.session_id = d.session_id AND h.seq IS NOT NULL
             AND h.status IN ('PENDING', 'RUNNING') AND h.id <> d.id ORDER BY h.seq LIMIT 1) h
     WHERE d.status <> 'PENDING' AND ss.halted_by IS NULL AND NOT (%(halt)s AND d.status = 'FAILED')
), next AS MATERIALIZED (
    SELECT head.next_claim_id, head.mine, t.id FROM head JOIN turns t ON {by_key("t.id", "head.id")}
     WHERE {DUE} ORDER BY head.id FOR NO KEY UPDATE OF t SKIP LOCKED
), claimed AS (
    UPDATE turns t
       SET status = 'RUNNING', attempt = t.attempt + 1, fence = nextval('fence_seq'), claim_id = next.next_claim_id,
           worker_id = %(worker)s, lease_until = clock_timestamp() + make_interval(secs => %(lease)s),
           started_at = clock_timestamp(), first_started_at = coalesce(t.first_started_at, clock_timestamp()), send_at = NULL
      FROM next WHERE {by_key("t.id", "next.id")} AND next.mine AND {DUE}
), handed_on AS (
    UPDATE turns t SET send_at = clock_timestamp(), sends = 0
      FROM next WHERE {by_key("t.id", "next.id")} AND NOT next.mine AND {DUE}
)
SELECT d.id, d.fence, d.status, d.seq, a.ordinal, a.role, a.replied_at,
       EXISTS (SELECT FROM head JOIN turns t ON {by_key("t.id", "head.id")}
                WHERE head.next_claim_id = d.next_claim_id AND {DUE}
                  AND NOT EXISTS (SELECT FROM next WHERE next.id = head.id)) AS look_again,
       EXISTS (SELECT FROM next WHERE next.next_claim_id = d.next_claim_id AND NOT next.mine) AS follows
  FROM done d LEFT JOIN answered a ON a.turn_id = d.id AND d.status = 'SUCCEEDED'
"""

REREAD_SETTLED: LiteralString = f"""
SELECT s.id, s.fence, a.outcome, coalesce(t.fence = s.fence AND {IS_RUNNING}, false) AS ours
  FROM unnest(%(ids)s::uuid[], %(fences)s::bigint[], %(attempts)s::int[]) s (id, fence, attempt)
  LEFT JOIN turns t ON {by_key("t.id", "s.id")}
  LEFT JOIN turn_attempts a ON a.turn_id = s.id AND a.attempt = s.attempt AND a.fence = s.fence
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRequest:
    """One claim's end. `more`: claim the session's next turn under `next_claim_id` in the same round trip.

    `apart`: the caller claims the next turn by itself, and must know whether one is due. The result is then HEAD_LOCKED.
    """

    turn: ClaimedTurn
    settlement: Settlement
    more: bool
    next_claim_id: UUID
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """The settle is committed. `status` is CANCELED instead of the requested one if a cancel came first."""

    status: TurnStatus
    next: Claim
    reply: StoredMessage | None = field(default=None, compare=False)
    """The reply as it is in the history. None without a reply, and if the response to the settle was lost: two results of the
    same settle may differ in it."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A newer claim has the turn. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class RowLocked:
    """Another transaction has locked the turn's row, or the row of the session to be halted. Nothing was changed; retry.

    Mostly a heartbeat or a cancel locks it for a moment. It may be an earlier call of the same settle, whose response was lost.
    """


async def settle(
    database: Database, terms: ClaimTerms, requests: Sequence[SettleRequest]
) -> list[Settled | Superseded | RowLocked]:
    """Ends many claims; returns the results in the order of `requests`.

    Raises DatabaseUnavailableError; the settles may have been committed. The call may be repeated with the same requests.
    """
    # One commit: a turn is never FAILED without its compensation.
    replies = [request.settlement.reply_text or encode(request.settlement.reply) for request in requests]
    parameters = _settle_parameters(terms, requests, replies, database.contents)
    settled, rows, *_ = await database.fetch_pipelined(
        [
            (SETTLE, parameters),
            (READ_CLAIMS, _next_claims(requests)),
            *_compensations(terms, requests),
        ]
    )
    following = {row["claim_id"]: claimed_turn(row, database.contents) for row in rows}
    # By id and fence: a batch may contain a stale claim and the present claim of one turn.
    committed = {(row["id"], row["fence"]): row for row in settled}
    missing = [request for request in requests if (request.turn.id, request.turn.fence) not in committed]
    reread, earlier = await _reread(database, missing) if missing else ({}, {})
    following |= earlier
    results: list[Settled | Superseded | RowLocked] = []
    for request, text in zip(requests, replies, strict=True):
        claim = request.turn.id, request.turn.fence
        next_turn = following.get(request.next_claim_id)
        if (row := committed.get(claim)) is not None:
            looks = row["look_again"] or (request.apart and row["follows"])
            idle = NoClaim.HEAD_LOCKED if looks else NoClaim.IDLE
            results.append(Settled(TurnStatus(row["status"]), next_turn or idle, _reply(row, text)))
        elif isinstance(found := reread[claim], TurnStatus):
            # The lost response also had `look_again`: assume true.
            idle = NoClaim.HEAD_LOCKED if request.more or request.apart else NoClaim.IDLE
            results.append(Settled(found, next_turn or idle))
        else:
            results.append(found)
    return results


def _reply(row: DictRow, text: str) -> StoredMessage | None:
    if row["ordinal"] is None:
        return None
    return StoredMessage(
        turn_id=row["id"],
        seq=row["seq"],
        ordinal=row["ordinal"],
        role=row["role"],
        text=text,
        created_at=row["replied_at"],
    )


async def _reread(
    database: Database, requests: Sequence[SettleRequest]
) -> tuple[dict[tuple[UUID, int], TurnStatus | Superseded | RowLocked], dict[UUID, ClaimedTurn]]:
    """For settles that changed no row: the result of each (a status: an earlier call set it), and the turns claimed next.

    The claims are read again, after the results: an earlier call that was still under way may have committed in between.
    """
    parameters = {
        "ids": [request.turn.id for request in requests],
        "fences": [request.turn.fence for request in requests],
        "attempts": [request.turn.attempt for request in requests],
    }
    rows, claims = await database.fetch_pipelined([(REREAD_SETTLED, parameters), (READ_CLAIMS, _next_claims(requests))])
    found = {(row["id"], row["fence"]): _became(row) for row in rows}
    return found, {row["claim_id"]: claimed_turn(row, database.contents) for row in claims}


def _became(row: DictRow) -> TurnStatus | Superseded | RowLocked:
    # Also None if a takeover recorded the attempt as lost.
    status = AttemptOutcome(row["outcome"]).status if row["outcome"] else None
    return status or (RowLocked() if row["ours"] else Superseded())


def _settle_parameters(
    terms: ClaimTerms, requests: Sequence[SettleRequest], replies: Sequence[str], contents: Contents
) -> dict[str, Any]:
    settlements = [request.settlement for request in requests]

    def places(column: str) -> list[Place]:
        return [Place(request.turn.tenant_id, request.turn.session_id, request.turn.id, column) for request in requests]

    return {
        "ids": [request.turn.id for request in requests],
        "fences": [request.turn.fence for request in requests],
        "statuses": [settlement.status.value for settlement in settlements],
        "outcomes": [settlement.outcome.value for settlement in settlements],
        "replies": list(map(contents.seal_json, replies, places(REPLY))),
        "afters": [settlement.after_seconds for settlement in settlements],
        "refunds": [settlement.refund for settlement in settlements],
        "faults": [settlement.fault for settlement in settlements],
        "error_classes": [settlement.error_class for settlement in settlements],
        "errors": list(map(contents.seal_optional, (one.error for one in settlements), places(ERROR))),
        "tracebacks": list(map(contents.seal_optional, (one.traceback for one in settlements), places(TRACEBACK))),
        "dead_letters": [settlement.dead_letter for settlement in settlements],
        "mores": [request.more for request in requests],
        "claims": [request.next_claim_id for request in requests],
        "partials": [
            None if settlement.partial is None else contents.seal_json(encode(settlement.partial), place)
            for settlement, place in zip(settlements, places(PARTIAL), strict=True)
        ],
        # As text: an array of arrays must be rectangular, and unnest would flatten it.
        "joinings": [array_literal(settlement.joining) if settlement.joining else None for settlement in settlements],
        "join_policies": [settlement.join_policy for settlement in settlements],
        "queue": terms.queue,
        "worker": terms.worker_id,
        "release": terms.release,
        "lease": terms.lease_seconds,
        "halt": terms.halt,
    }


def _next_claims(requests: Sequence[SettleRequest]) -> dict[str, Any]:
    return {
        "tenants": [request.turn.tenant_id for request in requests],
        "sessions": [request.turn.session_id for request in requests],
        "claims": [request.next_claim_id for request in requests],
    }


def _compensations(terms: ClaimTerms, requests: Sequence[SettleRequest]) -> list[tuple[LiteralString, dict[str, Any]]]:
    failing = [request.turn for request in requests if request.settlement.status is TurnStatus.FAILED]
    if not (failing and terms.compensates):
        return []
    parameters = {
        "ids": [turn.id for turn in failing],
        "fences": [turn.fence for turn in failing],
        "compensates": True,
        "compensation_expires": terms.compensation_expires_seconds,
    }
    return [(COMPENSATE_FAILED, parameters)]
