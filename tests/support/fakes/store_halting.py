"""The fake store's FAILED turns on their way back to work: `ops.sessions.halted_session` and `statements.revive`."""

from typing import Any

from tests.support.fakes.store_children import (
    has_successor,
    is_being_compensated,
    is_overtaken,
    is_preceded,
    may_start_over,
)
from tests.support.fakes.store_rows import TurnRow, columns, interval
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables, unnest
from turnstile.ops.sessions import halted_session
from turnstile.statements.redrive_audit import RECORD_MOVE
from turnstile.statements.revive import LOCK_FAILED, REVIVE
from turnstile.turn.status import TurnStatus

HALT_COLUMNS = ("id", "tenant_id", "session_id", "queue", "error_class")
WAKE_UP_COLUMNS = ("id", "tenant_id", "session_id", "queue", "trace_id", "span_id")


def _halts(tables: Tables, row: TurnRow) -> bool:
    return tables.session_of(row).halted_by == row.id


def read_halt(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.turns.get(parameters["id"])
    if row is None:
        return []
    failed = row.status is TurnStatus.FAILED
    answer = {
        **columns(row, HALT_COLUMNS),
        "status": row.status.value,
        "finished_at": tables.to_datetime(row.finished_at),
        "halts": _halts(tables, row),
        "replaced": failed and has_successor(tables, row),
        "compensated": failed and is_being_compensated(tables, row),
        "overtaken": failed and is_overtaken(tables, row),
        "waiting": len(tables.session_of(row).open),
    }
    return [answer]


def lock_halted(tables: Tables, parameters: Parameters) -> Rows:
    """LOCK_HALTED. Nothing to lock: no other call gets in between."""
    row = tables.turns.get(parameters["id"])
    return [columns(row, ("tenant_id", "session_id", "queue"))] if row is not None and _halts(tables, row) else []


def retry(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.find_failed(parameters["id"])
    if row is None or not may_start_over(tables, row):
        return []
    _start_over(
        tables,
        row,
        parameters["expires"],
        send_at=tables.now(),
        trace_id=parameters["trace"],
        span_id=parameters["span"],
    )
    return [columns(row, WAKE_UP_COLUMNS)]


def _start_over(tables: Tables, row: TurnRow, expires_in_seconds: float, **values: Any) -> None:
    now = tables.now()
    tables.update_turn(
        row,
        **dict.fromkeys(("first_started_at", "started_at", "finished_at", "error_class", "error", "dead_lettered_at")),
        **dict.fromkeys(("dropped_at", "dropped_by", "cancel_requested_at", "cancel_reason", "parent_span_id")),
        **dict.fromkeys(("attempt", "failures", "crashes", "sends"), 0),
        status=TurnStatus.PENDING,
        generation=row.generation + 1,
        execute_at=now,
        queued_at=now,
        expires_at=now + interval(expires_in_seconds),
        **values,
    )


def owe_dead_letter(tables: Tables, parameters: Parameters) -> Rows:
    row = tables.find_failed(parameters["id"])
    if row is not None and row.dead_lettered_at is None:
        tables.update_turn(row, send_at=tables.now())
    return []


def resume(tables: Tables, parameters: Parameters) -> Rows:
    session = tables.sessions[parameters["tenant"], parameters["session"]]
    tables.update(session, halted_by=None, updated_at=tables.now())
    return []


def lock_failed(tables: Tables, parameters: Parameters) -> Rows:
    """LOCK_FAILED. Nothing to lock, as above."""
    return []


def revive(tables: Tables, parameters: Parameters) -> Rows:
    asked: list[tuple[TurnRow, str, str, float]] = []
    for turn_id, generation, *wanted in unnest(parameters, "ids", "generations", "traces", "spans", "expires"):
        row = tables.find_failed(turn_id, generation)
        if row is None or (row.dropped_at is not None and not parameters["dropped"]):
            continue
        if not _halts(tables, row) and may_start_over(tables, row):
            asked.append((row, *wanted))
    rows = [row for row, *_ in asked]
    answers: Rows = []
    for row, trace_id, span_id, expires_in in sorted(asked, key=lambda one: (one[0].seq or 0, one[0].id)):
        if is_preceded(row, rows):
            continue
        send_at = tables.now() + interval(parameters["resend_after"])
        seq = tables.take_seq(tables.session_of(row))
        _start_over(tables, row, expires_in, send_at=send_at, seq=seq, trace_id=trace_id, span_id=span_id)
        answers.append(columns(row, (*WAKE_UP_COLUMNS, "generation")))
    return answers


def record_move(tables: Tables, parameters: Parameters) -> Rows:
    """RECORD_MOVE. Operators' records are not simulated."""
    return []


STATEMENTS: dict[str, Statement] = {
    halted_session.READ_HALT: read_halt,
    halted_session.LOCK_HALTED: lock_halted,
    halted_session.RETRY: retry,
    halted_session.OWE_DEAD_LETTER: owe_dead_letter,
    halted_session.RESUME: resume,
    LOCK_FAILED: lock_failed,
    REVIVE: revive,
    RECORD_MOVE: record_move,
}
