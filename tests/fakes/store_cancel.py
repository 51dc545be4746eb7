"""The fake store's cancel (`turns.cancellation`), the registry of workers and the record of redrives."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.fakes.store_clock import SECOND
from tests.fakes.store_rows import TurnRow, WorkerRow
from tests.fakes.store_tables import Tables
from turns.status import TurnStatus

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
    """LOCK_TURN."""
    row = _turn_of_tenant(tables, parameters)
    return [] if row is None else [{"session_id": row.session_id, "status": row.status.value}]


def cancel_pending(tables: Tables, parameters: Parameters) -> Rows:
    """CANCEL_PENDING."""
    row = tables.turns.get(parameters["id"])
    if row is not None and row.status is TurnStatus.PENDING:
        now = tables.now()
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
    """REQUEST_CANCEL."""
    row = tables.turns.get(parameters["id"])
    if row is not None and row.status is TurnStatus.RUNNING:
        asked_at = tables.now() if row.cancel_requested_at is None else row.cancel_requested_at
        tables.update_turn(row, cancel_requested_at=asked_at, cancel_reason=row.cancel_reason or parameters["reason"])
    return []


def announce(tables: Tables, parameters: Parameters) -> Rows:
    """`turns.registry.ANNOUNCE`."""
    now = tables.now()
    known = tables.workers.get(parameters["worker_id"])
    if known is None:
        tables.put_worker(WorkerRow(**parameters, started_at=now, seen_at=now))
    else:
        said = {name: parameters[name] for name in ("busy", "dwell_seconds", "draining")}
        tables.put_worker(replace(known, **said, seen_at=now))
    return []


def withdraw(tables: Tables, parameters: Parameters) -> Rows:
    """`turns.registry.WITHDRAW`."""
    forgotten = tables.now() - DAY
    for row in list(tables.workers.values()):
        if row.worker_id == parameters["worker_id"] or row.seen_at < forgotten:
            tables.delete_worker(row)
    return []


def begin_redrive(tables: Tables, parameters: Parameters) -> Rows:
    """`turns.redrive_record.BEGIN`. The record is for people: here it is only counted."""
    tables.redrives += 1
    return [{"id": tables.redrives}]


def no_answer(tables: Tables, parameters: Parameters) -> Rows:
    """What is written for people alone."""
    return []


def ping(tables: Tables, parameters: Parameters) -> Rows:
    """`Database.ping`."""
    return [{"?column?": 1}]
