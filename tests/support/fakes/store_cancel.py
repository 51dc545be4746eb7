"""The fake store's cancel (`statements.cancel`), the registry of workers and the record of redrives."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.fakes.store_clock import SECOND
from tests.support.fakes.store_rows import ChosenIdRow, TurnRow, WorkerRow, by_id
from tests.support.fakes.store_tables import Tables
from turnstile.turn.status import TurnStatus

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]

DAY = 86_400 * SECOND


def _turn_of_tenant(tables: Tables, parameters: Parameters) -> TurnRow | None:
    row = tables.turns.get(parameters["id"])
    return row if row is not None and row.tenant_id == parameters["tenant"] else None


def lock_session(tables: Tables, parameters: Parameters) -> Rows:
    """LOCK_SESSION. Nothing to lock: no other call gets in between."""
    row = _turn_of_tenant(tables, parameters)
    return [] if row is None else [{"session_id": row.session_id}]


def lock_turn(tables: Tables, parameters: Parameters) -> Rows:
    row = _turn_of_tenant(tables, parameters)
    return [] if row is None else [{"session_id": row.session_id, "status": row.status.value}]


def read_archived(tables: Tables, parameters: Parameters) -> Rows:
    """READ_ARCHIVED. There is no archive here: nothing that the simulation does lasts a day."""
    return []


def lock_named_session(tables: Tables, parameters: Parameters) -> Rows:
    known = (parameters["tenant"], parameters["session"]) in tables.sessions
    return [{"session_id": parameters["session"]}] if known else []


def lock_open(tables: Tables, parameters: Parameters) -> Rows:
    whose = (parameters["tenant"], parameters["session"])
    found = [
        row
        for row in tables.turns.values()
        if (row.tenant_id, row.session_id) == whose
        and row.status.is_open
        and row.kind == "turn"
        and (row.seq is not None or parameters["scheduled"])
    ]
    return [{"id": row.id, "status": row.status.value} for row in sorted(found, key=by_id)]


def leave_tombstone(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    row = tables.chosen_ids.get((parameters["tenant"], parameters["id"]))
    if row is None:
        row = ChosenIdRow(parameters["tenant"], parameters["id"], now, canceled_at=now, reason=parameters["reason"])
        tables.insert_chosen_id(row)
    elif row.submitted_at is None:
        canceled_at = now if row.canceled_at is None else row.canceled_at
        tables.update_chosen_id(row, canceled_at=canceled_at, reason=row.reason or parameters["reason"])
    return [{"submitted_at": tables.to_datetime(row.submitted_at)}]


def _named(tables: Tables, parameters: Parameters, status: TurnStatus) -> list[TurnRow]:
    rows = [tables.turns.get(turn_id) for turn_id in parameters["ids"]]
    return [row for row in rows if row is not None and row.status is status]


def cancel_pending(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    for row in _named(tables, parameters, TurnStatus.PENDING):
        tables.update_turn(
            row,
            status=TurnStatus.CANCELED,
            finished_at=now,
            send_at=None,
            cancel_requested_at=now,
            cancel_reason=parameters["reason"],
        )
    return []


def request_cancel(tables: Tables, parameters: Parameters) -> Rows:
    for row in _named(tables, parameters, TurnStatus.RUNNING):
        asked_at = tables.now() if row.cancel_requested_at is None else row.cancel_requested_at
        tables.update_turn(row, cancel_requested_at=asked_at, cancel_reason=row.cancel_reason or parameters["reason"])
    return []


def announce(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    known = tables.workers.get(parameters["worker_id"])
    if known is None:
        tables.put_worker(WorkerRow(**parameters, started_at=now, seen_at=now))
    else:
        said = {name: parameters[name] for name in ("busy", "queue_latency_seconds", "draining")}
        tables.put_worker(replace(known, **said, seen_at=now))
    return []


def withdraw(tables: Tables, parameters: Parameters) -> Rows:
    forgotten = tables.now() - DAY
    for row in list(tables.workers.values()):
        if row.worker_id == parameters["worker_id"] or row.seen_at < forgotten:
            tables.delete_worker(row)
    return []


def begin_redrive(tables: Tables, parameters: Parameters) -> Rows:
    """`statements.redrive_audit.BEGIN`. The record is for people: here it is only counted."""
    tables.redrives += 1
    return [{"id": tables.redrives}]


def no_answer(tables: Tables, parameters: Parameters) -> Rows:
    return []


def ping(tables: Tables, parameters: Parameters) -> Rows:
    return [{"?column?": 1}]
