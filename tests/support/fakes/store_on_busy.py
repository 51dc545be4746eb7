"""The fake store's submit with a policy (`statements.submit_on_busy`)."""

from collections.abc import Mapping
from typing import Any

from tests.support.fakes.store_rows import MessageRow, SubmissionRow, json_value
from tests.support.fakes.store_submit import answer_of, stored
from tests.support.fakes.store_tables import Tables
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import encode

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]


def take_key(tables: Tables, parameters: Parameters) -> Rows:
    row = SubmissionRow(
        tenant_id=parameters["tenant"],
        key=parameters["key"],
        fingerprint=parameters["fingerprint"],
        turn_id=parameters["id"],
        answer=None,
        created_at=tables.now(),
    )
    return [{"turn_id": row.turn_id}] if tables.insert_submission(row) else []


def lock_session(tables: Tables, parameters: Parameters) -> Rows:
    whose = (parameters["tenant"], parameters["session"])
    session = tables.sessions.get(whose)
    if session is None:
        session = tables.insert_session(*whose)
    else:
        tables.update_session(session, updated_at=tables.now())
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
            "id": row.id,
            "queue": row.queue,
            "untouched": untouched,
            "inputs": len(inputs),
            "input_bytes": input_bytes,
        }
    ]


def add_input(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.turns[parameters["id"]]
    content = json_value(parameters["content"])
    ordinal = max((said.ordinal for said in tables.messages.get(row.id, ())), default=-1) + 1
    tables.insert_message(MessageRow(row.id, ordinal, "user", content, tables.now()))
    return [{"answer": answer_of(tables, row)}]


def keep_answer(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.submissions[parameters["tenant"], parameters["key"]]
    tables.update_submission(row, turn_id=parameters["id"], answer=stored(parameters["answer"]))
    return []
