"""The fake store's cancel: `statements.cancel` and `statements.cancel_before_submit`."""

from tests.support.fakes.store_rows import ChosenIdRow, TurnRow, by_id
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables
from turnstile.archive.reads import READ_ARCHIVED_STANDINGS
from turnstile.statements import cancel
from turnstile.statements.cancel_before_submit import LEAVE_TOMBSTONE
from turnstile.turn.status import TurnStatus


def lock_turn(tables: Tables, parameters: Parameters) -> Rows:
    """LOCK_TURN, and LOCK_SESSION by a turn. Nothing to lock: no other call gets in between."""
    row = tables.turns.get(parameters["id"])
    if row is None or row.tenant_id != parameters["tenant"]:
        return []
    return [{"session_id": row.session_id, "status": row.status.value}]


def read_archived(tables: Tables, parameters: Parameters) -> Rows:
    """There is no archive here: nothing that the simulation does lasts a day."""
    return []


def lock_named_session(tables: Tables, parameters: Parameters) -> Rows:
    known = (parameters["tenant"], parameters["session"]) in tables.sessions
    return [{"session_id": parameters["session"]}] if known else []


def lock_open(tables: Tables, parameters: Parameters) -> Rows:
    session = (parameters["tenant"], parameters["session"])
    found = [
        row
        for row in tables.timed.values()
        if (row.tenant_id, row.session_id) == session
        and row.status.is_open
        and row.kind == "turn"
        and (row.seq is not None or parameters["scheduled"])
    ]
    return [{"id": row.id, "status": row.status.value} for row in sorted(found, key=by_id)]


def leave_tombstone(tables: Tables, parameters: Parameters) -> Rows:
    now, key = tables.now(), (parameters["tenant"], parameters["id"])
    tables.insert(tables.chosen_ids, key, ChosenIdRow(*key, created_at=now))
    row = tables.chosen_ids[key]
    if row.submitted_at is None:
        canceled_at = now if row.canceled_at is None else row.canceled_at
        tables.update(row, canceled_at=canceled_at, reason=row.reason or parameters["reason"])
    return [{"submitted_at": tables.to_datetime(row.submitted_at)}]


def _in_status(tables: Tables, parameters: Parameters, status: TurnStatus) -> list[TurnRow]:
    rows = [tables.turns.get(turn_id) for turn_id in parameters["ids"]]
    return [row for row in rows if row is not None and row.status is status]


def cancel_pending(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    for row in _in_status(tables, parameters, TurnStatus.PENDING):
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
    for row in _in_status(tables, parameters, TurnStatus.RUNNING):
        asked_at = tables.now() if row.cancel_requested_at is None else row.cancel_requested_at
        tables.update_turn(row, cancel_requested_at=asked_at, cancel_reason=row.cancel_reason or parameters["reason"])
    return []


STATEMENTS: dict[str, Statement] = {
    cancel.LOCK_SESSION: lock_turn,
    cancel.LOCK_NAMED_SESSION: lock_named_session,
    cancel.LOCK_OPEN: lock_open,
    cancel.LOCK_TURN: lock_turn,
    READ_ARCHIVED_STANDINGS: read_archived,
    cancel.CANCEL_PENDING: cancel_pending,
    cancel.REQUEST_CANCEL: request_cancel,
    LEAVE_TOMBSTONE: leave_tombstone,
}
