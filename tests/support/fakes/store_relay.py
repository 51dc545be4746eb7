"""The fake store's relay statements: `relay.loop`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter
from typing import Any

from tests.support.fakes.store_children import has_successor, is_being_compensated, is_overtaken, is_preceded
from tests.support.fakes.store_clock import interval
from tests.support.fakes.store_rows import Instant, TurnRow, by_id, columns
from tests.support.fakes.store_submit import is_failed
from tests.support.fakes.store_tables import Deadline, Tables
from turnstile.statements.due_messages import MAX_RESEND_SECONDS
from turnstile.statements.lost_turns import SEEN_SHARE
from turnstile.turn.status import TurnStatus

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]

PENDING, RUNNING = TurnStatus.PENDING, TurnStatus.RUNNING

TAKEN_COLUMNS = (
    *("id", "tenant_id", "session_id", "queue", "status", "attempt", "fence", "generation", "error_class", "error"),
    *("trace_id", "span_id"),
)
by_session = attrgetter("tenant_id", "session_id")


def _still_scheduled(row: TurnRow, at: Instant) -> bool:
    return row.send_at == at and row.seq is None and row.status is PENDING


def _still_due(row: TurnRow, at: Instant) -> bool:
    return row.send_at == at and not _still_scheduled(row, at)


def _still_leased(row: TurnRow, at: Instant) -> bool:
    return row.lease_until == at


def _take(
    heap: list[Deadline],
    until: Instant,
    holds: Callable[[TurnRow, Instant], bool],
    wanted: Callable[[TurnRow], bool],
    limit: int,
) -> list[TurnRow]:
    """Up to `limit` rows that are due at `until`, earliest first. Those that are not wanted stay in the heap.

    So do those that are: the caller changes them, and what no longer holds is dropped when it is met.
    """
    taken: list[TurnRow] = []
    kept: list[Deadline] = []
    for one in _pop(heap, until):
        at, row = one[0], one[-1]
        # The same deadline may stand in the heap more than once.
        if not holds(row, at) or (kept and kept[-1][-1] is row):
            continue
        kept.append(one)
        if wanted(row):
            taken.append(row)
            if len(taken) == limit:
                break
    for one in kept:
        heappush(heap, one)
    return taken


def _pop(heap: list[Deadline], until: Instant) -> Iterator[Deadline]:
    while heap and heap[0][0] <= until:
        yield heappop(heap)


def _is_asked_for(row: TurnRow, parameters: Parameters) -> bool:
    only = parameters.get("only")
    return row.id not in parameters["left_out"] and (only is None or row.id in only)


def _unplaced(tables: Tables, parameters: Parameters) -> list[TurnRow]:
    return [
        row
        for queue in parameters["queues"]
        for row in _take(
            tables.scheduled,
            tables.now(),
            _still_scheduled,
            lambda row, queue=queue: row.queue == queue and _is_asked_for(row, parameters),  # type: ignore[misc]
            parameters["limit"],
        )
    ]


def find_unplaced(tables: Tables, parameters: Parameters) -> Rows:
    return [{"id": row.id} for row in _unplaced(tables, parameters)]


def place_scheduled(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    due = _unplaced(tables, parameters)
    for key, rows in groupby(sorted(due, key=by_session), key=by_session):
        session = tables.sessions[key]
        for row in sorted(rows, key=lambda row: (row.execute_at or 0, row.id)):
            tables.update_session(session, last_seq=session.last_seq + 1, updated_at=now)
            tables.update_turn(row, seq=session.last_seq)
    return [{"id": row.id} for row in due]


def mark_lost(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    marked: Counter[tuple[str | None, str]] = Counter()
    # A lease that ends at this instant is not over yet.
    for row in _take(tables.leases, now - 1, _still_leased, lambda row: row.send_at is None, parameters["limit"]):
        tables.update_turn(row, send_at=now, sends=0)
        marked[row.worker_id, row.queue] += 1
    return [
        {"worker_id": worker_id, "queue": queue, "turns": turns, "alive": _is_alive(tables, worker_id, parameters)}
        for (worker_id, queue), turns in sorted(marked.items(), key=lambda one: (one[0][0] or "", one[0][1]))
    ]


def _is_alive(tables: Tables, worker_id: str | None, parameters: Parameters) -> bool:
    worker = tables.workers.get(worker_id or "")
    return worker is not None and worker.seen_at > tables.now() - interval(SEEN_SHARE * parameters["lease"])


def find_lost(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    found = []
    for row in tables.turns.values():
        if row.tenant_id in parameters["but_tenants"]:
            continue
        lost = (
            row.status is RUNNING and row.send_at is not None and row.lease_until is not None and row.lease_until < now
        )
        if row.queue == parameters["queue"] and (lost or (row.crashes > 0 and row.is_due(now))):
            found.append(row)
    return [
        {
            **columns(row, ("tenant_id", "session_id", "trace_id")),
            "turn_id": row.id,
            "crashes": row.crashes + (row.status is RUNNING),
        }
        for row in sorted(found, key=lambda row: (row.crashes, row.id))[: parameters["limit"]]
    ]


def _due(tables: Tables, parameters: Parameters) -> list[TurnRow]:
    now = tables.now()

    def take_of(queue: str, dead: bool, limit: int, reach: float) -> list[TurnRow]:
        floor = now - interval(reach)

        def wanted(row: TurnRow) -> bool:
            in_line = row.queue == queue and (row.status is TurnStatus.FAILED) == dead
            return in_line and row.send_at is not None and row.send_at > floor and _is_asked_for(row, parameters)

        return _take(tables.due, now, _still_due, wanted, limit)

    lines = zip(*(parameters[name] for name in ("queues", "deads", "limits", "reaches")), strict=True)
    return [row for line in lines for row in take_of(*line)]


def find_due(tables: Tables, parameters: Parameters) -> Rows:
    return [{"id": row.id} for row in _due(tables, parameters)]


def take_due(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    answers: Rows = []
    for row in _due(tables, parameters):
        due_at = tables.to_datetime(row.send_at)
        if row.status is not RUNNING:
            send_at = now + interval(parameters["stamp"])
        elif row.lease_until is not None and row.lease_until < now:
            send_at = now + interval(min(MAX_RESEND_SECONDS, parameters["resend"] * 2 ** min(row.sends, 10)))
        else:
            send_at = None
        tables.update_turn(row, send_at=send_at, sends=row.sends + (row.status is RUNNING))
        answers.append({**columns(row, TAKEN_COLUMNS), "send_at": tables.to_datetime(send_at), "due_at": due_at})
    return answers


def set_resend_deadline(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    for turn_id, stamp in zip(parameters["ids"], parameters["stamps"], strict=True):
        row = tables.turns.get(turn_id)
        if row is None or row.status is not PENDING or row.send_at != tables.from_datetime(stamp):
            continue
        resend = max(parameters["resend_after"], 2 * tables.queue_latency(row.queue, parameters["seen"])) * 2 ** min(
            row.sends, 10
        )
        tables.update_turn(row, sends=row.sends + 1, send_at=now + interval(min(MAX_RESEND_SECONDS, resend)))
    return []


def give_back(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, stamp, due_at in zip(*(parameters[name] for name in ("ids", "stamps", "due_ats")), strict=True):
        row = tables.turns.get(turn_id)
        if row is not None and row.send_at == tables.from_datetime(stamp):
            tables.update_turn(row, send_at=tables.from_datetime(due_at))
    return []


def dead_lettered(tables: Tables, parameters: Parameters) -> Rows:
    for turn_id, generation in zip(parameters["ids"], parameters["generations"], strict=True):
        row = tables.turns.get(turn_id)
        if row is not None and is_failed(row, generation):
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
    for place, (tenant_id, session_id, seconds) in enumerate(
        zip(*(parameters[name] for name in ("tenants", "sessions", "seconds")), strict=True), 1
    ):
        session = tables.sessions.get((tenant_id, session_id))
        first = next((row for row in session.open if row.status is PENDING), None) if session else None
        if first is None or not first.is_due(now):
            continue
        later = now + interval(seconds)
        tables.update_turn(first, send_at=later if first.send_at is None else min(first.send_at, later), sends=0)
        answers.append({"place": place, "locked": False})
    return answers


def find_waiting_tenant(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    for tenant_id, session_id in sorted(tables.sessions):
        head = tables.head_of(tenant_id, session_id)
        if tenant_id == parameters["tenant"] or head is None or tables.sessions[tenant_id, session_id].halted_by:
            continue
        if head.queue == parameters["queue"] and head.is_due(now):
            return [{"tenant_id": tenant_id}]
    return []


def backlog(tables: Tables, parameters: Parameters) -> Rows:
    return [_backlog_of(tables, queue, parameters["limit"]) for queue in sorted(parameters["queues"])]


def _backlog_of(tables: Tables, queue: str, limit: int) -> dict[str, Any]:
    now = tables.now()
    rows = [row for row in tables.turns.values() if row.queue == queue]
    claimable = [
        row for row in rows if row.is_due(now) and tables.sessions[row.tenant_id, row.session_id].halted_by is None
    ]
    due = sorted((row.execute_at or row.created_at, by_id(row), row) for row in claimable)[:limit]
    heads = [since for since, _, row in due if tables.head_of(row.tenant_id, row.session_id) in (row, None)]
    return {
        "queue": queue,
        "due": len(due),
        "ready": len(heads),
        "oldest_seconds": (now - min(heads)) / 1_000_000 if heads else 0.0,
        "running": sum(row.status is TurnStatus.RUNNING for row in rows),
        "truncated": len(due) >= limit,
    }


def prune_items(tables: Tables, parameters: Parameters) -> Rows:
    """PRUNE_ITEMS, of a store that has no durable items."""
    return [{"gone": 0}]


def halts(tables: Tables, row: TurnRow) -> bool:
    return tables.sessions[row.tenant_id, row.session_id].halted_by == row.id


def revive(tables: Tables, parameters: Parameters) -> Rows:
    now = tables.now()
    asked = zip(*(parameters[name] for name in ("ids", "generations", "traces", "spans", "expires")), strict=True)
    failed = [
        (tables.turns[turn_id], trace_id, span_id, expires_in)
        for turn_id, generation, trace_id, span_id, expires_in in asked
        if is_failed(tables.turns.get(turn_id), generation)
        and not halts(tables, tables.turns[turn_id])
        and not has_successor(tables, tables.turns[turn_id])
        and not is_being_compensated(tables, tables.turns[turn_id])
        and not is_overtaken(tables, tables.turns[turn_id])
    ]
    rows = [one[0] for one in failed]
    failed = [one for one in failed if not is_preceded(one[0], rows)]
    answers: Rows = []
    for row, trace_id, span_id, expires_in in sorted(failed, key=lambda one: (one[0].seq or 0, by_id(one[0]))):
        session = tables.sessions[row.tenant_id, row.session_id]
        tables.update_session(session, last_seq=session.last_seq + 1, updated_at=now)
        tables.update_turn(
            row,
            **dict.fromkeys(("started_at", "finished_at", "error_class", "error", "dead_lettered_at")),
            **dict.fromkeys(("cancel_requested_at", "cancel_reason", "parent_span_id")),
            status=PENDING,
            seq=session.last_seq,
            generation=row.generation + 1,
            attempt=0,
            failures=0,
            crashes=0,
            execute_at=now,
            send_at=now + interval(parameters["resend_after"]),
            sends=0,
            expires_at=now + interval(expires_in),
            trace_id=trace_id,
            span_id=span_id,
        )
        names = ("id", "tenant_id", "session_id", "queue", "trace_id", "span_id", "generation")
        answers.append(columns(row, names))
    return answers
