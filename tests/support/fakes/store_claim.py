"""The fake store's claim, renew and settle: `statements.claim`, `statements.renew_lease`, `statements.settle`."""

from operator import attrgetter, itemgetter
from typing import Any
from uuid import UUID

from tests.support.fakes.store_children import compensate
from tests.support.fakes.store_rows import AttemptRow, TurnRow, by_id, columns, interval, json_value, seconds
from tests.support.fakes.store_submit import last_answered
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables, unnest
from turnstile.statements.claim import CLAIM
from turnstile.statements.read_claims import READ_CLAIMS
from turnstile.statements.renew_lease import RENEW
from turnstile.statements.settle import REREAD_SETTLED, SETTLE
from turnstile.turn.limits import MAX_HAND_BACKS
from turnstile.turn.status import TurnStatus

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED = TurnStatus

READ_COLUMNS = (
    *("claim_id", "id", "tenant_id", "session_id", "seq", "queue", "attempt", "failures", "crashes", "max_attempts"),
    *("generation", "fence", "timeout_seconds", "metadata", "trace_id", "span_id", "kind", "parent_turn_id"),
    "parent_span_id",
)
SETTLE_COLUMNS = (
    *("ids", "fences", "statuses", "outcomes", "replies", "afters", "refunds", "faults", "error_classes", "errors"),
    *("dead_letters", "mores", "claims", "joinings", "join_policies", "partials", "tracebacks"),
)


def claim(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    answers: dict[UUID, dict[str, Any]] = {}
    due: dict[UUID, tuple[UUID, TurnRow]] = {}
    for tenant_id, session_id, claim_id, most in unnest(parameters, "tenants", "sessions", "claims", "most_crashes"):
        session = tables.sessions.get((tenant_id, session_id))
        head = tables.head_of(tenant_id, session_id)
        free = head is not None and session is not None and session.halted_by is None
        crashes = 0 if head is None else head.crashes + (head.status is RUNNING)
        answers[claim_id] = {
            **dict.fromkeys(("turn_id", "tenant_id", "session_id", "seq", "trace_id", "status", "error_class")),
            "lost_worker": None,
            "crashes": crashes,
            "left_over": False,
            "claim_id": claim_id,
            "known": session is not None,
            "ours": head is not None and head.queue == parameters["queue"],
            "due": free and head is not None and head.is_due(now),
            "running": head is not None and head.status is RUNNING and (head.lease_until or 0) >= now,
        }
        if head is None or not free or head.queue != parameters["queue"]:
            continue
        if head.is_due(now) or _may_be_taken_over(tables, head):
            if crashes > most:
                answers[claim_id]["left_over"] = True
            else:
                # Of two claims for one session in one statement, one gets it.
                due.setdefault(head.id, (claim_id, head))
    for _, (claim_id, row) in sorted(due.items(), key=itemgetter(0)):
        answers[claim_id].update(_take(tables, row, claim_id, parameters))
    return list(answers.values())


def _may_be_taken_over(tables: Tables, row: TurnRow) -> bool:
    return row.send_at is not None and row.is_lost(tables.now())


def _take(tables: Tables, row: TurnRow, claim_id: UUID, parameters: Parameters) -> dict[str, Any]:
    now = tables.now()
    was, crash_loop = row.status, row.crashes + 1 >= parameters["max_crashes"]
    lost = columns(row, ("attempt", "fence", "worker_id", "due_at", "started_at"))
    if was is PENDING:
        verdict = RUNNING
    elif row.cancel_requested_at is not None:
        verdict = CANCELED
    else:
        verdict = FAILED if crash_loop else RUNNING
    running, failed = verdict is RUNNING, verdict is FAILED
    tables.update_turn(
        row,
        status=verdict,
        attempt=row.attempt + running,
        crashes=row.crashes + (was is RUNNING),
        fence=tables.next_fence(),
        claim_id=claim_id,
        worker_id=parameters["worker"],
        lease_until=now + interval(parameters["lease"]) if running else None,
        started_at=now if running else row.started_at,
        first_started_at=now if row.first_started_at is None else row.first_started_at,
        finished_at=None if running else now,
        expires_at=row.expires_at + (now - (row.started_at or now) if was is RUNNING else 0),
        send_at=now if failed and not parameters["halt"] else None,
        error_class="crash_loop" if failed else row.error_class,
        error=f"its worker was lost in attempt {row.attempt}" if failed else row.error,
    )
    if was is RUNNING:
        worker = tables.workers.get(lost["worker_id"])
        its = {"release": worker.release if worker else "", "generation": row.generation, **lost}
        tables.insert_attempt(AttemptRow(turn_id=row.id, finished_at=now, outcome="lost", **its))
    if failed:
        compensate(tables, row, parameters)
    if failed and parameters["halt"]:
        _halt(tables, row)
    elif not running:
        _wake_heir(tables, tables.session_of(row).head)
    return {
        **columns(row, ("tenant_id", "session_id", "seq", "trace_id", "error_class")),
        "turn_id": row.id,
        "status": verdict.value,
        "due": False,
        "lost_worker": lost["worker_id"] if was is RUNNING else None,
    }


def _halt(tables: Tables, row: TurnRow) -> None:
    tables.update(tables.session_of(row), halted_by=row.id, updated_at=tables.now())


def _wake_heir(tables: Tables, head: TurnRow | None) -> None:
    if head is not None and head.is_due(tables.now()):
        tables.update_turn(head, send_at=tables.now(), sends=0)


def read_claims(tables: Tables, parameters: Parameters) -> Rows:
    now, found = tables.now(), []
    for tenant_id, session_id, claim_id in unnest(parameters, "tenants", "sessions", "claims"):
        session = tables.sessions.get((tenant_id, session_id))
        row = session.running if session else None
        if session is None or row is None or row.claim_id != claim_id or row.started_at is None:
            continue
        inputs = tables.inputs_of(row.id)
        before = last_answered(session, row.seq or 0)
        found.append(
            {
                **columns(row, READ_COLUMNS),
                "created_at": tables.to_datetime(row.created_at),
                "expires_in_seconds": seconds(row.expires_at - now),
                "queue_latency_seconds": seconds(
                    row.started_at - max(row.created_at, row.execute_at or row.created_at)
                ),
                "waited_seconds": seconds(row.started_at - row.queued_at)
                if row.first_started_at == row.started_at
                else None,
                "hand_backs": 0 if row.first_started_at == row.started_at else _hand_backs(tables, row),
                "contents": [one.content for one in inputs] or None,
                "ordinals": [one.ordinal for one in inputs] or None,
                "times": [tables.to_datetime(one.created_at) for one in inputs] or None,
                "version_seq": before and before.seq,
                "version_claim": before and before.claim_id,
            }
        )
    return found


def _hand_backs(tables: Tables, row: TurnRow) -> int:
    earlier = [one for one in tables.attempts.get(row.id, ()) if one.attempt == row.attempt]
    last = sorted(earlier, key=attrgetter("fence"))[1 - MAX_HAND_BACKS :]
    return sum((one.outcome, one.error, one.generation) == ("released", None, row.generation) for one in last)


def renew(tables: Tables, parameters: Parameters) -> Rows:
    answers: Rows = [] if parameters["ids"] else [{"at": tables.to_datetime(tables.now()), "id": None}]
    for turn_id, fence in unnest(parameters, "ids", "fences"):
        row, claimed = tables.turns.get(turn_id), tables.find_claimed(turn_id, fence)
        renewed = claimed if not tables.turns_backfilled else None
        if renewed is not None:
            tables.update_turn(renewed, lease_until=tables.now() + interval(parameters["lease"]), send_at=None)
        answers.append(
            {
                "at": tables.to_datetime(tables.now()),
                "id": turn_id,
                "fence": fence,
                "ours": claimed is not None,
                "renewed": renewed is not None,
                "cancel_requested": row is not None and row.cancel_requested_at is not None,
                "cancel_reason": row and row.cancel_reason,
            }
        )
    return answers


def settle(tables: Tables, parameters: Parameters) -> Rows:
    asked = [dict(zip(SETTLE_COLUMNS, values, strict=True)) for values in unnest(parameters, *SETTLE_COLUMNS)]
    for one in asked:
        # Before anything is written: one reply that can't be stored refuses the whole statement.
        one["replies"] = json_value(one["replies"])
        one["partials"] = None if one["partials"] is None else json_value(one["partials"])
    answers: Rows = []
    heads: list[tuple[TurnRow, dict[str, Any]]] = []
    for one in asked:
        row = tables.find_claimed(one["ids"], one["fences"])
        if row is None:
            continue
        _end(tables, row, one, halt=parameters["halt"], release=parameters["release"])
        ended = {"id": row.id, "fence": row.fence, "status": row.status.value, "look_again": False}
        answers.append(ended | _reply(tables, row))
        session = tables.session_of(row)
        if row.status is not PENDING and session.halted_by is None and session.head is not None:
            heads.append((session.head, one))
    for head, one in sorted(heads, key=lambda pair: by_id(pair[0])):
        _go_on(tables, head, one, parameters)
    return answers


def _reply(tables: Tables, row: TurnRow) -> dict[str, Any]:
    if row.status is not SUCCEEDED:
        return dict.fromkeys(("seq", "ordinal", "role", "replied_at"))
    reply = tables.messages[row.id][-1]
    return {
        **columns(reply, ("ordinal", "role")),
        "seq": row.seq,
        "replied_at": tables.to_datetime(reply.created_at),
    }


def _end(tables: Tables, row: TurnRow, asked: dict[str, Any], *, halt: bool, release: str) -> None:
    now, attempt, due_at = tables.now(), row.attempt, row.due_at
    canceled = row.cancel_requested_at is not None
    final = CANCELED if canceled else TurnStatus(asked["statuses"])
    waits = final is PENDING
    later = now + interval(asked["afters"])
    tables.update_turn(
        row,
        status=final,
        attempt=attempt - (asked["refunds"] and waits),
        failures=row.failures + asked["faults"],
        crashes=0 if waits and asked["outcomes"] in ("retried", "snoozed", "joined") else row.crashes,
        lease_until=None,
        execute_at=later if waits and asked["afters"] > 0 else row.execute_at,
        send_at=later if waits else now if final is FAILED and asked["dead_letters"] and not halt else None,
        sends=0,
        joining=_uuids(asked["joinings"]) if waits else None,
        join_policy=asked["join_policies"] if waits else None,
        finished_at=None if waits else now,
        error_class=asked["error_classes"],
        error=None if asked["outcomes"] in ("snoozed", "released") else asked["errors"],
    )
    if final is FAILED and halt:
        _halt(tables, row)
    if final is SUCCEEDED:
        tables.insert_message(row.id, "assistant", asked["replies"])
    if final is CANCELED and asked["partials"] is not None:
        tables.insert_message(row.id, "assistant", asked["partials"], "partial")
    tables.insert_attempt(
        AttemptRow(
            turn_id=row.id,
            attempt=attempt,
            release=release,
            due_at=due_at,
            finished_at=now,
            outcome="canceled" if canceled else asked["outcomes"],
            error=asked["errors"],
            traceback=asked["tracebacks"],
            **columns(row, ("fence", "generation", "worker_id", "started_at", "error_class")),
        )
    )


def _uuids(text: str | None) -> list[UUID] | None:
    return None if text is None else [UUID(one) for one in text.strip("{}").split(",")]


def _go_on(tables: Tables, head: TurnRow, asked: dict[str, Any], parameters: Parameters) -> None:
    now = tables.now()
    if not (asked["mores"] and head.queue == parameters["queue"] and head.crashes == 0):
        _wake_heir(tables, head)
        return
    if not head.is_due(now):
        return
    tables.update_turn(
        head,
        status=RUNNING,
        attempt=head.attempt + 1,
        fence=tables.next_fence(),
        claim_id=asked["claims"],
        worker_id=parameters["worker"],
        lease_until=now + interval(parameters["lease"]),
        started_at=now,
        first_started_at=now if head.first_started_at is None else head.first_started_at,
        send_at=None,
    )


def reread_settled(tables: Tables, parameters: Parameters) -> Rows:
    answers = []
    for turn_id, fence, attempt in unnest(parameters, "ids", "fences", "attempts"):
        ended = {(one.attempt, one.fence): one.outcome for one in tables.attempts.get(turn_id, ())}
        ours = tables.find_claimed(turn_id, fence) is not None
        answers.append({"id": turn_id, "fence": fence, "outcome": ended.get((attempt, fence)), "ours": ours})
    return answers


STATEMENTS: dict[str, Statement] = {
    CLAIM: claim,
    READ_CLAIMS: read_claims,
    RENEW: renew,
    SETTLE: settle,
    REREAD_SETTLED: reread_settled,
}
