"""The fake store's submit and reads: `statements.submit`, `queries.session_messages` and what else asks for rows by id."""

import json
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from tests.support.fakes.store_children import has_successor
from tests.support.fakes.store_rows import (
    ChosenIdRow,
    Instant,
    SessionRow,
    SubmissionRow,
    TurnRow,
    columns,
    interval,
    json_value,
)
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables, unnest
from turnstile.ops.turns import attempts
from turnstile.queries import session_messages
from turnstile.statements.cancel_before_submit import FORGET_CHOSEN_IDS
from turnstile.statements.delete_old_rows import AT_ONCE
from turnstile.statements.revive import READ_GENERATIONS, READ_OWNER, REPLACED
from turnstile.statements.submit import FORGET_SUBMISSIONS, READ_SUBMISSIONS, SUBMIT
from turnstile.turn.status import TurnStatus

SUBMIT_COLUMNS = (
    *("ords", "ids", "tenants", "sessions", "queues", "keys", "fingerprints", "contents", "execute_ats", "expires"),
    *("max_attempts", "timeouts", "metadatas", "trace_ids", "span_ids", "parent_span_ids", "webhook_urls"),
    *("chosens", "parents", "parent_fences", "child_keys", "replaces"),
)


def submit(tables: Tables, parameters: Parameters) -> Rows:
    asked = [dict(zip(SUBMIT_COLUMNS, values, strict=True)) for values in unnest(parameters, *SUBMIT_COLUMNS)]
    for one in asked:
        # Before anything is written: one value that can't be stored refuses the whole statement.
        one["contents"], one["metadatas"] = json_value(one["contents"]), json_value(one["metadatas"])
    # What was there before the statement: an id that comes twice in it is not free, whatever became of the first.
    seen: set[UUID] = set()
    answers: Rows = []
    for one in asked:
        taken = one["ids"] in tables.turns or one["ids"] in seen
        seen.add(one["ids"])
        fence = one["parent_fences"]
        if taken or (fence is not None and tables.find_claimed(one["parents"], fence) is None):
            continue
        row = _record(tables, one, parameters["resend_after"])
        if row is not None:
            wake = row.status is TurnStatus.PENDING
            answers.append({"ord": one["ords"], "answer": answer_of(tables, row), "wake": wake})
    return answers


def _record(tables: Tables, asked: dict[str, Any], resend_seconds: float) -> TurnRow | None:
    now = tables.now()
    execute_at = tables.from_datetime(asked["execute_ats"])
    later = execute_at if execute_at is not None and execute_at > now else None
    resend = interval(max(resend_seconds, 2 * tables.queue_latency(asked["queues"])))
    row = TurnRow(
        id=asked["ids"],
        tenant_id=asked["tenants"],
        session_id=asked["sessions"],
        queue=asked["queues"],
        execute_at=later,
        send_at=now + resend if later is None else later,
        expires_at=(now if later is None else later) + interval(asked["expires"]),
        max_attempts=asked["max_attempts"],
        timeout_seconds=asked["timeouts"],
        metadata=asked["metadatas"],
        trace_id=asked["trace_ids"],
        span_id=asked["span_ids"],
        parent_span_id=asked["parent_span_ids"],
        webhook_url=asked["webhook_urls"],
        parent_turn_id=asked["parents"],
        child_key=asked["child_keys"],
        created_at=now,
        queued_at=now if later is None else later,
    )
    if asked["keys"] is not None:
        accepted = SubmissionRow(
            tenant_id=row.tenant_id,
            key=asked["keys"],
            fingerprint=asked["fingerprints"],
            turn_id=row.id,
            answer=answer_of(tables, row),
            created_at=now,
        )
        if not tables.insert(tables.submissions, (row.tenant_id, accepted.key), accepted):
            return None
    if asked["chosens"]:
        met = meet(tables, row.tenant_id, row.id)
        if met.canceled_at is not None:
            row.status, row.send_at, row.finished_at = TurnStatus.CANCELED, None, now
            row.cancel_requested_at, row.cancel_reason = met.canceled_at, met.reason
    session = tables.sessions.get((row.tenant_id, row.session_id))
    session = session or tables.insert_session(row.tenant_id, row.session_id)
    if row.status is TurnStatus.PENDING and later is None:
        row.seq = tables.take_seq(session)
    else:
        tables.update(session, updated_at=now)
    replaced = asked["replaces"]
    if replaced is not None and tables.turns[replaced].status not in {TurnStatus.FAILED, TurnStatus.CANCELED}:
        return None
    tables.insert_turn(row)
    tables.insert_message(row.id, "user", asked["contents"])
    return row


def meet(tables: Tables, tenant_id: str, turn_id: UUID) -> ChosenIdRow:
    """The row of a chosen id: its cancel may have come first."""
    now, key = tables.now(), (tenant_id, turn_id)
    tables.insert(tables.chosen_ids, key, ChosenIdRow(*key, created_at=now))
    met: ChosenIdRow = tables.chosen_ids[key]
    if met.submitted_at is None:
        tables.update(met, submitted_at=now)
    return met


def answer_of(tables: Tables, row: TurnRow) -> dict[str, Any]:
    return {
        **columns(row, ("session_id", "queue", "trace_id", "span_id", "parent_span_id")),
        "id": str(row.id),
        "execute_at": _iso(tables, row.execute_at),
        "expires_at": _iso(tables, row.expires_at),
        "created_at": _iso(tables, row.created_at),
    }


def _iso(tables: Tables, instant: Instant | None) -> str | None:
    moment: datetime | None = tables.to_datetime(instant)
    if moment is None:
        return None
    # Postgres writes no zeroes at the end of a fraction.
    fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}+00:00"


def read_submissions(tables: Tables, parameters: Parameters) -> Rows:
    answers: Rows = []
    names = ("ords", "tenants", "keys", "ids", "parents", "child_keys")
    for place, tenant_id, key, turn_id, *call in unnest(parameters, *names):
        kept = tables.submissions.get((tenant_id, key)) if key is not None else None
        row = tables.turns.get(turn_id) if key is None else None
        if kept is not None:
            answers.append({"ord": place, "fingerprint": kept.fingerprint, "answer": kept.answer, "ours": True})
        elif row is not None:
            ours = [row.tenant_id, row.parent_turn_id, row.child_key] == [tenant_id, *call]
            answers.append({"ord": place, "fingerprint": None, "answer": answer_of(tables, row), "ours": ours})
    return answers


def forget_submissions(tables: Tables, parameters: Parameters) -> Rows:
    return _forget(tables, tables.submissions, parameters["older_than"])


def forget_chosen_ids(tables: Tables, parameters: Parameters) -> Rows:
    return _forget(tables, tables.chosen_ids, parameters["older_than"])


def _forget(tables: Tables, table: dict[Any, Any], older_than_seconds: float) -> Rows:
    limit = tables.now() - interval(older_than_seconds)
    # In the order of their making, which is that of `created_at`.
    gone = [key for key, row in islice(table.items(), AT_ONCE) if row.created_at < limit]
    for key in gone:
        tables.delete(table, key)
    return [{"gone": len(gone)}]


def history_page(tables: Tables, parameters: Parameters) -> Rows:
    """HISTORY_PAGE of all messages before a turn: the simulation asks for no other."""
    rows = _history(tables, {**parameters, "before": parameters["seq"], "limit": parameters["limit"] + 1})
    return [{**row, "found": len(rows)} for row in rows[: parameters["limit"]]]


def _history(tables: Tables, parameters: Parameters) -> Rows:
    """The newest first."""
    session = tables.sessions.get((parameters["tenant"], parameters["session"]))
    found: Rows = []
    for row in reversed(session.answered if session else ()):
        if row.seq is None or row.seq >= parameters["before"]:
            continue
        for said in sorted(tables.messages[row.id], key=lambda one: -one.ordinal):
            if len(found) == parameters["limit"]:
                return found
            if said.kind == "message":
                content = {**columns(said, ("turn_id", "ordinal", "role", "content")), "seq": row.seq}
                found.append({**content, "created_at": tables.to_datetime(said.created_at)})
    return found


def history_as_text(tables: Tables, parameters: Parameters) -> Rows:
    found: Rows = []
    for row in _history(tables, parameters):
        text = json.dumps(row.pop("content"), ensure_ascii=False)
        found.append({**row, "text": text if len(text.encode()) <= parameters["max_bytes"] else None})
    return found


def last_answered(session: SessionRow, before: int) -> TurnRow | None:
    # By the end of a sorted list: nearly always the first is it.
    return next((row for row in reversed(session.answered) if row.seq is not None and row.seq < before), None)


def version(tables: Tables, parameters: Parameters) -> Rows:
    session = tables.sessions.get((parameters["tenant"], parameters["session"]))
    if session is None:
        return []
    last = last_answered(session, parameters["before"])
    return [{"seq": last and last.seq, "claim_id": last and last.claim_id}]


def read_owner(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.turns.get(parameters["id"])
    return [] if row is None else [columns(row, ("tenant_id", "session_id", "queue"))]


def read_generations(tables: Tables, parameters: Parameters) -> Rows:
    found = [tables.turns[turn_id] for turn_id in dict.fromkeys(parameters["ids"]) if turn_id in tables.turns]
    return [
        {
            "id": row.id,
            "generation": row.generation,
            "status": REPLACED if row.status is TurnStatus.FAILED and has_successor(tables, row) else row.status.value,
        }
        for row in found
    ]


def read_attempts(tables: Tables, parameters: Parameters) -> Rows:
    names = ("attempt", "fence", "generation", "worker_id", "release", "outcome", "error_class", "error", "traceback")
    turn = tables.turns.get(parameters["id"])
    if turn is None or turn.tenant_id != parameters["tenant"]:
        return []
    ended = sorted(tables.attempts.get(turn.id, ()), key=lambda row: row.fence)
    return [
        {
            **columns(row, names),
            "due_at": tables.to_datetime(row.due_at),
            "started_at": tables.to_datetime(row.started_at),
            "finished_at": tables.to_datetime(row.finished_at),
        }
        for row in ended
    ]


STATEMENTS: dict[str, Statement] = {
    SUBMIT: submit,
    READ_SUBMISSIONS: read_submissions,
    FORGET_SUBMISSIONS: forget_submissions,
    FORGET_CHOSEN_IDS: forget_chosen_ids,
    READ_OWNER: read_owner,
    READ_GENERATIONS: read_generations,
    session_messages.HISTORY_PAGE: history_page,
    session_messages.HISTORY_AS_TEXT: history_as_text,
    session_messages.VERSION: version,
    attempts.READ: read_attempts,
}
