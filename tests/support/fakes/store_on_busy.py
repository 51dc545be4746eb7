"""The fake store's submit with a policy (`statements.submit_on_busy`)."""

import json

from tests.support.fakes.store_rows import SubmissionRow, json_value
from tests.support.fakes.store_submit import answer_of, meet
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables
from turnstile.statements import submit_on_busy
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode


def take_key(tables: Tables, parameters: Parameters) -> Rows:
    row = SubmissionRow(
        tenant_id=parameters["tenant"],
        key=parameters["key"],
        fingerprint=parameters["fingerprint"],
        turn_id=parameters["id"],
        answer=None,
        created_at=tables.now(),
    )
    taken = tables.insert(tables.submissions, (row.tenant_id, row.key), row)
    if not taken:
        return []
    return [{"canceled": parameters["meets"] and meet(tables, row.tenant_id, row.turn_id).canceled_at is not None}]


def lock_session(tables: Tables, parameters: Parameters) -> Rows:
    key = (parameters["tenant"], parameters["session"])
    session = tables.sessions.get(key) or tables.insert_session(*key)
    tables.update(session, updated_at=tables.now())
    return [{"halted_by": session.halted_by}]


def busy_with(tables: Tables, parameters: Parameters) -> Rows:
    head = tables.head_of(parameters["tenant"], parameters["session"])
    return [] if head is None else [{"id": head.id}]


def lock_last(tables: Tables, parameters: Parameters) -> Rows:
    session = tables.sessions.get((parameters["tenant"], parameters["session"]))
    if session is None or not session.open:
        return []
    row = session.open[-1]
    untouched = row.status is TurnStatus.PENDING and row.fence == 0 and row.kind == "turn"
    inputs = [said.content for said in tables.messages.get(row.id, ()) if said.role == "user"]
    input_bytes = sum(len(encode(content).encode()) for content in inputs)
    return [
        {
            "turn_id": row.id,
            "queue": row.queue,
            "untouched": untouched,
            "inputs": len(inputs),
            "input_bytes": input_bytes,
        }
    ]


def add_input(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.turns[parameters["id"]]
    tables.insert_message(row.id, "user", json_value(parameters["content"]))
    return [{"answer": answer_of(tables, row)}]


def keep_answer(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.submissions[parameters["tenant"], parameters["key"]]
    answer = json_value(json.dumps(parameters["answer"].obj))
    tables.update(row, turn_id=parameters["id"], answer=answer)
    return []


STATEMENTS: dict[str, Statement] = {
    submit_on_busy.TAKE_KEY: take_key,
    submit_on_busy.LOCK_SESSION: lock_session,
    submit_on_busy.BUSY_WITH: busy_with,
    submit_on_busy.LOCK_LAST: lock_last,
    submit_on_busy.ADD_INPUT: add_input,
    submit_on_busy.KEEP_ANSWER: keep_answer,
}
