"""The fake store's ways on for a halted session: `statements.halt`."""

from collections.abc import Mapping
from typing import Any

from tests.support.fakes.store_children import has_successor, is_being_compensated, is_overtaken
from tests.support.fakes.store_clock import interval
from tests.support.fakes.store_relay import halts
from tests.support.fakes.store_rows import TurnRow, columns
from tests.support.fakes.store_tables import Tables
from turnstile.turn.status import TurnStatus

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]

HALT_COLUMNS = ("id", "tenant_id", "session_id", "queue", "error_class")


def _failed(tables: Tables, parameters: Parameters) -> TurnRow | None:
    row = tables.turns.get(parameters["id"])
    return row if row is not None and row.status is TurnStatus.FAILED else None


def read_halt(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.turns.get(parameters["id"])
    if row is None:
        return []
    answer = {
        **columns(row, HALT_COLUMNS),
        "status": row.status.value,
        "finished_at": tables.to_datetime(row.finished_at),
        "halts": halts(tables, row),
        "replaced": row.status is TurnStatus.FAILED and has_successor(tables, row),
        "compensated": row.status is TurnStatus.FAILED and is_being_compensated(tables, row),
        "overtaken": row.status is TurnStatus.FAILED and is_overtaken(tables, row),
        "waiting": len(tables.sessions[row.tenant_id, row.session_id].open),
    }
    return [answer]


def lock_halted(tables: Tables, parameters: Parameters) -> Rows:
    """LOCK_HALTED. Nothing to lock: no other call gets in between."""
    row = tables.turns.get(parameters["id"])
    if row is None or not halts(tables, row):
        return []
    return [columns(row, ("tenant_id", "session_id", "queue"))]


def retry(tables: Tables, parameters: Parameters) -> Rows:
    row = _failed(tables, parameters)
    if row is None or has_successor(tables, row) or is_being_compensated(tables, row) or is_overtaken(tables, row):
        return []
    now = tables.now()
    tables.update_turn(
        row,
        **dict.fromkeys(("started_at", "finished_at", "error_class", "error", "dead_lettered_at")),
        **dict.fromkeys(("cancel_requested_at", "cancel_reason", "parent_span_id")),
        **dict.fromkeys(("attempt", "failures", "crashes", "sends"), 0),
        status=TurnStatus.PENDING,
        generation=row.generation + 1,
        execute_at=now,
        send_at=now,
        expires_at=now + interval(parameters["expires"]),
        trace_id=parameters["trace"],
        span_id=parameters["span"],
    )
    return [columns(row, ("id", "tenant_id", "session_id", "queue", "trace_id", "span_id"))]


def owe_dead_letter(tables: Tables, parameters: Parameters) -> Rows:
    row = _failed(tables, parameters)
    if row is not None and row.dead_lettered_at is None:
        tables.update_turn(row, send_at=tables.now())
    return []


def resume(tables: Tables, parameters: Parameters) -> Rows:
    session = tables.sessions[parameters["tenant"], parameters["session"]]
    tables.update_session(session, halted_by=None, updated_at=tables.now())
    return []
