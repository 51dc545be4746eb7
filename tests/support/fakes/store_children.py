"""The fake store's children and what they need: `statements.once_values`, `statements.children`, `statements.join`."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from operator import attrgetter
from typing import Any
from uuid import UUID

from tests.support.fakes.store_clock import interval
from tests.support.fakes.store_rows import MessageRow, TurnRow, ValueRow, columns, json_value
from tests.support.fakes.store_tables import Tables
from turnstile.turn.status import TurnStatus

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PENDING, RUNNING, SUCCEEDED = TurnStatus.PENDING, TurnStatus.RUNNING, TurnStatus.SUCCEEDED


def holds(tables: Tables, turn_id: UUID | None, fence: int) -> bool:
    """Whether that claim of the turn is the present one."""
    row = tables.turns.get(turn_id) if turn_id is not None else None
    return row is not None and row.fence == fence and row.status is RUNNING


def read_values(tables: Tables, parameters: Parameters) -> Rows:
    values = tables.values.get(parameters["turn"], {})
    return [columns(row, ("key", "value")) for row in values.values()]


def record_value(tables: Tables, parameters: Parameters) -> Rows:
    value = json_value(parameters["value"])
    if not holds(tables, parameters["turn"], parameters["fence"]):
        return []
    row = ValueRow(parameters["turn"], parameters["key"], value, parameters["fence"], tables.now())
    return [{"value": json.loads(json.dumps(value))}] if tables.insert_value(row) else []


def reread_value(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.values.get(parameters["turn"], {}).get(parameters["key"])
    return [{"value": row.value}] if row and holds(tables, parameters["turn"], parameters["fence"]) else []


def read_children(tables: Tables, parameters: Parameters) -> Rows:
    newest: dict[str, TurnRow] = {}
    for row in sorted(tables.children_of(parameters["parent"]), key=attrgetter("created_at", "id")):
        if row.child_key is not None:
            newest[row.child_key] = row
    return [columns(row, ("child_key", "id", "session_id", "status")) for _, row in sorted(newest.items())]


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
    return tables.turns[row.parent_turn_id].status is not TurnStatus.FAILED


def is_preceded(row: TurnRow, others: Iterable[TurnRow]) -> bool:
    """Whether a compensation of the turn is among those that are redriven with it."""
    return any((one.kind, one.parent_turn_id) == ("compensation", row.id) for one in others)


def find_compensated(tables: Tables, parameters: Parameters) -> Rows:
    failed = [row for row in _rows(tables, parameters["ids"]) if row.status is TurnStatus.FAILED]
    return [
        {"id": row.id}
        for row in failed
        if is_being_compensated(tables, row) or is_overtaken(tables, row) or is_preceded(row, failed)
    ]


def read_states(tables: Tables, parameters: Parameters) -> Rows:
    found = [row for row in _rows(tables, parameters["ids"]) if row.parent_turn_id == parameters["parent"]]
    return [columns(row, ("id", "status", "error_class", "error")) for row in found]


def read_outputs(tables: Tables, parameters: Parameters) -> Rows:
    return [
        columns(said, ("turn_id", "content"))
        for turn_id in dict.fromkeys(parameters["ids"])
        for said in tables.messages.get(turn_id, ())
        if (said.role, said.kind) == ("assistant", "message")
    ]


def _rows(tables: Tables, ids: Iterable[UUID]) -> list[TurnRow]:
    return [tables.turns[turn_id] for turn_id in sorted(set(ids)) if turn_id in tables.turns]


def wake_parents(tables: Tables, parameters: Parameters) -> Rows:
    return _wake(tables, _rows(tables, parameters["ids"]))


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
    return [{"id": row.id} for row in ready]


def _is_joined(tables: Tables, parent: TurnRow) -> bool:
    statuses = {row.status for row in _rows(tables, parent.joining or ())}
    over = {SUCCEEDED} if parent.join_policy == "any" else {TurnStatus.FAILED, TurnStatus.CANCELED}
    return not statuses & {PENDING, RUNNING} or bool(statuses & over)


def compensate_failed(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, fence in zip(parameters["ids"], parameters["fences"], strict=True):
        row = tables.turns.get(turn_id)
        if row is not None and row.fence == fence and row.status is TurnStatus.FAILED:
            compensate(tables, row, parameters)
    return []


def compensate(tables: Tables, failed: TurnRow, parameters: Parameters) -> None:
    if not parameters["compensates"] or failed.kind != "turn":
        return
    now = tables.now()
    digest = sha256(f"compensation/{failed.id}/{failed.generation}".encode()).hexdigest()
    created_at = tables.to_datetime(failed.created_at)
    assert created_at is not None
    milliseconds = (created_at - EPOCH) // timedelta(milliseconds=1)
    turn_id = UUID(f"{milliseconds:012x}7{digest[:3]}8{digest[3:18]}")
    if turn_id in tables.turns:
        return
    session_id = f"compensation:{turn_id}"
    tables.update_session(tables.insert_session(failed.tenant_id, session_id), last_seq=1)
    names = ("tenant_id", "queue", "metadata", "trace_id")
    tables.insert_turn(
        TurnRow(
            **columns(failed, names),
            id=turn_id,
            session_id=session_id,
            seq=1,
            kind="compensation",
            send_at=now,
            expires_at=now + interval(parameters["compensation_expires"]),
            span_id=digest[16:32],
            parent_span_id=failed.span_id,
            parent_turn_id=failed.id,
            created_at=now,
        )
    )
    said = [one for one in tables.messages.get(failed.id, ()) if (one.role, one.kind) == ("user", "message")]
    content = {
        **columns(failed, ("session_id", "generation", "error_class", "error")),
        "turn_id": str(failed.id),
        "inputs": [one.content for one in said],
        "values": {key: row.value for key, row in tables.values.get(failed.id, {}).items()},
    }
    tables.insert_message(MessageRow(turn_id, 0, "user", content, now))
