"""The fake store's relay statements, and those that wake or look for heads."""

from collections import Counter
from collections.abc import Callable
from itertools import groupby
from operator import attrgetter
from typing import Any

from tests.support.fakes.store_rows import Instant, TurnRow, WorkerRow, by_id, columns, interval, seconds
from tests.support.fakes.store_tables import Parameters, Rows, Statement, Tables, unnest
from turnstile.memory.durable_items import PRUNE_ITEMS
from turnstile.queries.backlog import BACKLOG
from turnstile.statements import due_messages, lost_turns, place_scheduled, session_head
from turnstile.statements.defer import DEFER
from turnstile.statements.waiting_tenants import FIND_WAITING_TENANT
from turnstile.statements.worker_registry import LOST_LEASES, LOST_WITH_TURNS_LEASES
from turnstile.turn.status import TurnStatus

PENDING, RUNNING = TurnStatus.PENDING, TurnStatus.RUNNING

TAKEN_COLUMNS = (
    *("id", "tenant_id", "session_id", "queue", "status", "attempt", "fence", "generation", "error_class", "error"),
    *("trace_id", "span_id"),
)
by_session = attrgetter("tenant_id", "session_id")


def _take(tables: Tables, time: str, until: Instant, wanted: Callable[[TurnRow], bool], limit: int) -> list[TurnRow]:
    """Up to `limit` rows whose `time` is past at `until`, earliest first."""
    due = [
        row for row in tables.timed.values() if (at := getattr(row, time)) is not None and at <= until and wanted(row)
    ]
    return sorted(due, key=attrgetter(time, "id"))[:limit]


def _is_scheduled(row: TurnRow) -> bool:
    """Without a place: such a row is not due, but is placed first."""
    return row.seq is None and row.status is PENDING


def _is_asked_for(row: TurnRow, parameters: Parameters) -> bool:
    only = parameters.get("only")
    return row.id not in parameters["left_out"] and (only is None or row.id in only)


def _unplaced(tables: Tables, parameters: Parameters) -> list[TurnRow]:
    def take_of(queue: str) -> list[TurnRow]:
        def wanted(row: TurnRow) -> bool:
            return _is_scheduled(row) and row.queue == queue and _is_asked_for(row, parameters)

        return _take(tables, "send_at", tables.now(), wanted, parameters["limit"])

    return [row for queue in parameters["queues"] for row in take_of(queue)]


def find_unplaced(tables: Tables, parameters: Parameters) -> Rows:
    return [columns(row, ("id", "trace_id")) for row in _unplaced(tables, parameters)]


def place_due(tables: Tables, parameters: Parameters) -> Rows:
    due = _unplaced(tables, parameters)
    for key, rows in groupby(sorted(due, key=by_session), key=by_session):
        for row in sorted(rows, key=lambda row: (row.execute_at or 0, row.id)):
            tables.update_turn(row, seq=tables.take_seq(tables.sessions[key]))
    return [{"id": row.id} for row in due]


def mark_lost(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    marked: Counter[tuple[str | None, str]] = Counter()

    def is_lost(row: TurnRow) -> bool:
        owner = tables.workers.get(row.worker_id or "")
        spared = owner and _may_live(owner, row, now, parameters["proven"])
        return row.send_at is None and not spared and not tables.turns_backfilled

    # A lease that ends at this instant is not over yet.
    over = min(now, tables.from_datetime(parameters["by"])) - 1
    for row in _take(tables, "lease_until", over, is_lost, parameters["limit"]):
        tables.update_turn(row, send_at=now, sends=0)
        marked[row.worker_id, row.queue] += 1
    of_worker = Counter[str | None]()
    for (worker_id, _), turns in marked.items():
        of_worker[worker_id] += turns
    strangers = [
        {"worker_id": worker_id, "queue": queue, "turns": turns}
        for (worker_id, queue), turns in marked.items()
        if worker_id not in tables.workers
    ]
    found = [
        {"worker_id": worker.worker_id, "queue": worker.queue, "turns": of_worker[worker.worker_id]}
        for worker in _find_gone(tables, of_worker)
    ]
    return sorted(found + strangers, key=lambda row: (str(row["worker_id"] or ""), str(row["queue"])))


def _may_live(owner: WorkerRow, row: TurnRow, now: Instant, proven_seconds: float) -> bool:
    """Whether the worker says that it holds the turn, or has a lease that nothing has been proved for."""
    holds = row.id in owner.unrenewed and owner.seen_at > now - interval(owner.lease_seconds)
    return holds or owner.lease_seconds > proven_seconds


def _find_gone(tables: Tables, owners: Counter[str | None]) -> list[WorkerRow]:
    now = tables.now()
    gone = [
        worker
        for worker in tables.workers.values()
        if worker.lost_at is None
        and worker.seen_at <= now - interval(LOST_WITH_TURNS_LEASES * worker.lease_seconds)
        and (worker.seen_at < now - interval(LOST_LEASES * worker.lease_seconds) or owners[worker.worker_id])
    ]
    for worker in gone:
        tables.update(worker, lost_at=now)
    return gone


def any_lost(tables: Tables, _: Parameters) -> Rows:
    now = tables.now()
    return [{"found": any(row.send_at is None and row.is_lost(now) for row in tables.timed.values())}]


def find_lost(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    found = [
        row
        for row in tables.timed.values()
        if row.tenant_id not in parameters["but_tenants"]
        and row.queue == parameters["queue"]
        and ((row.send_at is not None and row.is_lost(now)) or (row.crashes > 0 and row.is_due(now)))
    ]
    return [
        {
            **columns(row, ("tenant_id", "session_id", "trace_id")),
            "turn_id": row.id,
            "crashes": row.crashes + (row.status is RUNNING),
        }
        for row in sorted(found, key=attrgetter("crashes", "id"))[: parameters["limit"]]
    ]


def _due(tables: Tables, parameters: Parameters) -> list[TurnRow]:
    now = tables.now()

    def take_of(queue: str, dead: bool, limit: int, reach: float) -> list[TurnRow]:
        floor = now - interval(reach)

        def wanted(row: TurnRow) -> bool:
            in_line = row.queue == queue and (row.status is TurnStatus.FAILED) == dead and not _is_scheduled(row)
            return in_line and row.send_at is not None and row.send_at > floor and _is_asked_for(row, parameters)

        return _take(tables, "send_at", now, wanted, limit)

    return [row for line in unnest(parameters, "queues", "deads", "limits", "reaches") for row in take_of(*line)]


def find_due(tables: Tables, parameters: Parameters) -> Rows:
    return [columns(row, ("id", "trace_id")) for row in _due(tables, parameters)]


def take_due(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    answers: Rows = []
    for row in _due(tables, parameters):
        due_at = tables.to_datetime(row.send_at)
        send_at: Instant | None = None
        if row.status is not RUNNING:
            send_at = now + interval(parameters["stamp"])
        elif row.is_lost(now):
            send_at = now + _backed_off(parameters["resend"], row)
        tables.update_turn(row, send_at=send_at, sends=row.sends + (row.status is RUNNING))
        answers.append({**columns(row, TAKEN_COLUMNS), "send_at": tables.to_datetime(send_at), "due_at": due_at})
    return answers


def _backed_off(resend_seconds: float, row: TurnRow) -> Instant:
    return interval(min(due_messages.MAX_RESEND_SECONDS, resend_seconds * 2 ** min(row.sends, 10)))


def set_resend_deadline(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, stamp in unnest(parameters, "ids", "stamps"):
        row = tables.turns.get(turn_id)
        if row is None or row.status is not PENDING or row.send_at != tables.from_datetime(stamp):
            continue
        resend = max(parameters["resend_after"], 2 * tables.queue_latency(row.queue))
        tables.update_turn(row, sends=row.sends + 1, send_at=tables.now() + _backed_off(resend, row))
    return []


def give_back(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, stamp, due_at in unnest(parameters, "ids", "stamps", "due_ats"):
        row = tables.turns.get(turn_id)
        if row is not None and row.send_at == tables.from_datetime(stamp):
            tables.update_turn(row, send_at=tables.from_datetime(due_at))
    return []


def dead_lettered(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, generation in unnest(parameters, "ids", "generations"):
        row = tables.find_failed(turn_id, generation)
        if row is not None:
            tables.update_turn(row, send_at=None, dead_lettered_at=tables.now())
    return []


def wake_head(tables: Tables, parameters: Parameters) -> Rows:
    head = tables.head_of(parameters["tenant"], parameters["session"])
    if head is None or not head.is_due(tables.now()):
        return []
    tables.update_turn(head, send_at=tables.now(), sends=0)
    return [columns(head, ("id", "tenant_id", "session_id", "queue", "trace_id", "span_id"))]


def defer(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    answers: Rows = []
    for place, (*key, after) in enumerate(unnest(parameters, "tenants", "sessions", "seconds"), 1):
        session = tables.sessions.get((key[0], key[1]))
        first = next((row for row in session.open if row.status is PENDING), None) if session else None
        if first is None or not first.is_due(now):
            continue
        later = now + interval(after)
        tables.update_turn(first, send_at=later if first.send_at is None else min(first.send_at, later), sends=0)
        answers.append({"place": place, "locked": False})
    return answers


def find_waiting_tenant(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    for (tenant_id, _), session in sorted(tables.sessions.items()):
        if tenant_id == parameters["tenant"] or session.head is None or session.halted_by:
            continue
        if session.head.queue == parameters["queue"] and session.head.is_due(now):
            return [{"tenant_id": tenant_id}]
    return []


def backlog(tables: Tables, parameters: Parameters) -> Rows:
    return [_backlog_of(tables, queue, parameters["limit"]) for queue in sorted(parameters["queues"])]


def _backlog_of(tables: Tables, queue: str, limit: int) -> dict[str, Any]:
    now = tables.now()
    rows = [row for row in tables.timed.values() if row.queue == queue]
    claimable = [row for row in rows if row.is_due(now) and tables.session_of(row).halted_by is None]
    due = sorted((row.execute_at or row.created_at, by_id(row), row) for row in claimable)[:limit]
    heads = [since for since, _, row in due if tables.session_of(row).head in (row, None)]
    return {
        "queue": queue,
        "due": len(due),
        "ready": len(heads),
        "oldest_seconds": seconds(now - min(heads)) if heads else 0.0,
        "running": sum(row.status is RUNNING for row in rows),
        "truncated": len(due) >= limit,
    }


def prune_items(tables: Tables, parameters: Parameters) -> Rows:
    """PRUNE_ITEMS, of a store that has no durable items."""
    return [{"gone": 0}]


STATEMENTS: dict[str, Statement] = {
    place_scheduled.PLACE_SCHEDULED: place_due,
    place_scheduled.FIND_UNPLACED: find_unplaced,
    lost_turns.ANY_LOST: any_lost,
    lost_turns.MARK_LOST: mark_lost,
    lost_turns.FIND_LOST: find_lost,
    due_messages.TAKE_DUE: take_due,
    due_messages.FIND_DUE: find_due,
    due_messages.SET_RESEND_DEADLINE: set_resend_deadline,
    due_messages.GIVE_BACK: give_back,
    due_messages.DEAD_LETTERED: dead_lettered,
    session_head.WAKE_HEAD: wake_head,
    DEFER: defer,
    FIND_WAITING_TENANT: find_waiting_tenant,
    BACKLOG: backlog,
    PRUNE_ITEMS: prune_items,
}
