"""The fake store's registry of workers and record of redrives, and the statements that change no turn."""

from tests.support.fakes.store_rows import SECOND, WorkerRow
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables
from turnstile.statements import redrive_audit
from turnstile.statements.paused_queues import READ_PAUSED
from turnstile.statements.revive import BOUND_WAIT
from turnstile.statements.worker_registry import ANNOUNCE, WITHDRAW

DAY = 86_400 * SECOND


def announce(tables: Tables, parameters: Parameters) -> Rows:
    now, worker_id = tables.now(), parameters["worker_id"]
    tables.insert(tables.workers, worker_id, WorkerRow(**parameters, started_at=now, seen_at=now))
    reported = (
        "busy", "queue_latency_seconds", "draining", "deaf_for_seconds", "blocked_for_seconds", "blocked_by", "unrenewed",
        "starved_for_seconds",
    )  # fmt: skip
    tables.update(tables.workers[worker_id], **{name: parameters[name] for name in reported}, seen_at=now, lost_at=None)
    return []


def withdraw(tables: Tables, parameters: Parameters) -> Rows:
    forgotten = tables.now() - DAY
    for row in list(tables.workers.values()):
        if row.worker_id == parameters["worker_id"] or row.seen_at < forgotten:
            tables.delete(tables.workers, row.worker_id)
    return []


def record_redrive(tables: Tables, parameters: Parameters) -> Rows:
    """The record is for people: here it is only counted."""
    tables.redrives += 1
    return [{"id": tables.redrives}]


def no_rows(tables: Tables, parameters: Parameters) -> Rows:
    return []


STATEMENTS: dict[str, Statement] = {
    ANNOUNCE: announce,
    WITHDRAW: withdraw,
    redrive_audit.RECORD: record_redrive,
    redrive_audit.NOTE: no_rows,
    redrive_audit.FINISH: no_rows,
    BOUND_WAIT: no_rows,
    # No queue is paused here.
    READ_PAUSED: no_rows,
}
