"""The fake store's children: `statements.{start_children,join,compensate,once_values}`."""

import json
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from operator import attrgetter
from uuid import UUID

from tests.support.fakes.store_rows import TurnRow, ValueRow, columns, interval, json_value
from tests.support.fakes.store_tables import EPOCH, Parameters, Rows, Statement, Tables
from turnstile.statements import join, once_values, start_children
from turnstile.statements.compensate import COMPENSATE_FAILED
from turnstile.statements.revive import FIND_COMPENSATED
from turnstile.turn.status import TurnStatus

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED = TurnStatus


def read_values(tables: Tables, parameters: Parameters) -> Rows:
    values = tables.values.get(parameters["turn"], {})
    return [columns(row, ("key", "value")) for row in values.values()]


def record_value(tables: Tables, parameters: Parameters) -> Rows:
    value = json_value(parameters["value"])
    turn_id, key, fence = parameters["turn"], parameters["key"], parameters["fence"]
    if tables.find_claimed(turn_id, fence) is None:
        return []
    row = ValueRow(turn_id, key, value, fence, tables.now())
    recorded = tables.insert(tables.values.setdefault(turn_id, {}), key, row)
    return [{"value": json.loads(json.dumps(value))}] if recorded else []


def reread_value(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.values.get(parameters["turn"], {}).get(parameters["key"])
    claimed = tables.find_claimed(parameters["turn"], parameters["fence"])
    return [{"value": row.value}] if row and claimed else []


def read_children(tables: Tables, parameters: Parameters) -> Rows:
    newest: dict[str, TurnRow] = {}
    for row in sorted(tables.children_of(parameters["parent"]), key=attrgetter("created_at", "id")):
        if row.child_key is not None:
            newest[row.child_key] = row
    return [columns(row, ("child_key", "id", "session_id", "status")) for _, row in sorted(newest.items())]


def read_depth(tables: Tables, parameters: Parameters) -> Rows:
    depth, row = 0, tables.turns.get(parameters["turn"])
    while depth < parameters["most"] and row is not None and row.parent_turn_id is not None:
        depth, row = depth + 1, tables.turns.get(row.parent_turn_id)
    return [{"depth": depth}]


def has_successor(tables: Tables, row: TurnRow) -> bool:
    if row.child_key is None or row.parent_turn_id is None:
        return False
    return any(
        (one.child_key, one.tenant_id) == (row.child_key, row.tenant_id)
        and (one.created_at, one.id) > (row.created_at, row.id)
        for one in tables.children_of(row.parent_turn_id)
    )


def is_being_compensated(tables: Tables, row: TurnRow) -> bool:
    return any(
        (one.kind, one.tenant_id) == ("compensation", row.tenant_id) and one.status.is_open
        for one in tables.children_of(row.id)
    )


def is_overtaken(tables: Tables, row: TurnRow) -> bool:
    if row.kind != "compensation" or row.parent_turn_id is None:
        return False
    return tables.turns[row.parent_turn_id].status is not FAILED


def may_start_over(tables: Tables, row: TurnRow) -> bool:
    """Of a FAILED turn: whether a redrive, or a retry of its halted session, may put it back to work."""
    return not (has_successor(tables, row) or is_being_compensated(tables, row) or is_overtaken(tables, row))


def is_preceded(row: TurnRow, others: Iterable[TurnRow]) -> bool:
    """Whether a compensation of the turn is among those that are redriven with it."""
    return any((one.kind, one.parent_turn_id) == ("compensation", row.id) for one in others)


def find_compensated(tables: Tables, parameters: Parameters) -> Rows:
    failed = [row for row in tables.find(parameters["ids"]) if row.status is FAILED]
    return [
        {"id": row.id}
        for row in failed
        if is_being_compensated(tables, row) or is_overtaken(tables, row) or is_preceded(row, failed)
    ]


def read_states(tables: Tables, parameters: Parameters) -> Rows:
    found = [row for row in tables.find(parameters["ids"]) if row.parent_turn_id == parameters["parent"]]
    return [columns(row, ("id", "status", "error_class", "error")) for row in found]


def read_outputs(tables: Tables, parameters: Parameters) -> Rows:
    return [
        columns(said, ("turn_id", "content"))
        for turn_id in dict.fromkeys(parameters["ids"])
        for said in tables.messages.get(turn_id, ())
        if (said.role, said.kind) == ("assistant", "message")
    ]


def wake_parents(tables: Tables, parameters: Parameters) -> Rows:
    return _wake(tables, tables.find(parameters["ids"]))


def wake_joined(tables: Tables, parameters: Parameters) -> Rows:
    """WAKE_JOINED; of more than one scan may look at, any will do."""
    return _wake(tables, list(tables.joining.values())[: parameters["limit"]])


def _wake(tables: Tables, waiting: Iterable[TurnRow]) -> Rows:
    ready = [
        row for row in waiting if row.joining is not None and (row.status is not PENDING or _is_joined(tables, row))
    ]
    for row in ready:
        due = {"execute_at": tables.now(), "send_at": tables.now(), "sends": 0} if row.status is PENDING else {}
        tables.update_turn(row, joining=None, join_policy=None, **due)
    return [{"id": row.id, "trace_id": row.trace_id} for row in ready]


def _is_joined(tables: Tables, parent: TurnRow) -> bool:
    statuses = {row.status for row in tables.find(parent.joining or ())}
    over = {SUCCEEDED} if parent.join_policy == "any" else {FAILED, CANCELED}
    return not statuses & {PENDING, RUNNING} or bool(statuses & over)


def compensate_failed(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, fence in zip(parameters["ids"], parameters["fences"], strict=True):
        row = tables.find_failed(turn_id)
        if row is not None and row.fence == fence:
            compensate(tables, row, parameters)
    return []


def compensate(tables: Tables, failed: TurnRow, parameters: Parameters) -> None:
    if not parameters["compensates"] or failed.kind != "turn":
        return
    now = tables.now()
    digest = sha256(f"compensation/{failed.id}/{failed.span_id}/{failed.generation}".encode()).hexdigest()
    created_at = tables.to_datetime(failed.created_at)
    assert created_at is not None
    milliseconds = (created_at - EPOCH) // timedelta(milliseconds=1)
    turn_id = UUID(f"{milliseconds:012x}7{digest[:3]}8{digest[3:18]}")
    if turn_id in tables.turns:
        return
    session = tables.insert_session(failed.tenant_id, f"compensation:{turn_id}")
    tables.insert_turn(
        TurnRow(
            **columns(failed, ("tenant_id", "queue", "metadata", "trace_id")),
            id=turn_id,
            session_id=session.session_id,
            seq=tables.take_seq(session),
            kind="compensation",
            send_at=now,
            expires_at=now + interval(parameters["compensation_expires"]),
            span_id=digest[16:31] + failed.span_id[-1],
            parent_span_id=failed.span_id,
            parent_turn_id=failed.id,
            created_at=now,
            queued_at=now,
        )
    )
    content = {
        **columns(failed, ("session_id", "generation", "error_class", "error")),
        "turn_id": str(failed.id),
        "inputs": [one.content for one in tables.inputs_of(failed.id)],
        "values": {key: row.value for key, row in tables.values.get(failed.id, {}).items()},
    }
    tables.insert_message(turn_id, "user", content)


STATEMENTS: dict[str, Statement] = {
    once_values.READ_VALUES: read_values,
    once_values.RECORD_VALUE: record_value,
    once_values.REREAD_VALUE: reread_value,
    start_children.READ_CHILDREN: read_children,
    start_children.READ_DEPTH: read_depth,
    start_children.READ_STATES: read_states,
    start_children.READ_OUTPUTS: read_outputs,
    COMPENSATE_FAILED: compensate_failed,
    join.WAKE_PARENTS: wake_parents,
    join.WAKE_JOINED: wake_joined,
    FIND_COMPENSATED: find_compensated,
}
