"""The tables of the fake store: rows, the indexes that make each call cheap, and what the database itself enforces.

Every change goes through here, because here is what a statement can't get around: the CHECKs and the trigger of
migration 0001, its unique indexes, the audit that the chaos harness's trigger would write, and the rollback.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from heapq import heappush
from typing import Any
from uuid import UUID

from psycopg import errors

from tests.proof.checker.tables import Change
from tests.support.fakes.store_audit import is_audited, make_change
from tests.support.fakes.store_clock import MICROSECOND, SECOND, interval
from tests.support.fakes.store_constraints import check_birth, check_row, check_transition
from tests.support.fakes.store_rows import (
    AttemptRow,
    ChosenIdRow,
    Instant,
    Key,
    MessageRow,
    SessionRow,
    SubmissionRow,
    TurnRow,
    ValueRow,
    WorkerRow,
    by_seq,
)
from turnstile.turn.status import TurnStatus

MAX_DWELL_SECONDS = 900.0

INDEXED = frozenset({"status", "seq", "send_at", "lease_until", "joining"})

Deadline = tuple[Instant, int, int, TurnRow]
"""An entry of a heap: when, id and serial number as tie-breakers, and whose. It holds for as long as the row says so."""


class Tables:
    """All rows. `now` is the virtual clock in seconds, `origin` the moment at which it stands at 0."""

    def __init__(self, now: Callable[[], float], origin: datetime) -> None:
        self._clock = now
        self._origin = origin
        self._undo: list[Callable[[], object]] | None = None
        self._transactions = 0
        self._fences = 0
        self._deadlines = 0
        self.turns: dict[UUID, TurnRow] = {}
        self.sessions: dict[Key, SessionRow] = {}
        self.messages: dict[UUID, list[MessageRow]] = {}
        self.attempts: dict[UUID, list[AttemptRow]] = {}
        self.submissions: dict[Key, SubmissionRow] = {}
        self.chosen_ids: dict[tuple[str, UUID], ChosenIdRow] = {}
        self.values: dict[UUID, dict[str, ValueRow]] = {}
        self.joining: dict[UUID, TurnRow] = {}
        """The turns that wait for children: index `turns_joining`."""
        self._by_parent: dict[UUID, list[TurnRow]] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.redrives = 0
        self.changes: list[Change] = []
        self.due: list[Deadline] = []
        """By `send_at`: index `turns_send_at` without what `scheduled` has."""
        self.scheduled: list[Deadline] = []
        """By `send_at`: index `turns_scheduled`."""
        self.leases: list[Deadline] = []
        """By `lease_until`."""
        """`pg_postmaster_start_time()`, in virtual seconds."""

    # --- time

    def now(self) -> Instant:
        """`now()` and `clock_timestamp()`: a statement takes no time here."""
        return round(self._clock() * SECOND)

    def to_datetime(self, instant: Instant | None) -> datetime | None:
        return None if instant is None else self._origin + timedelta(microseconds=instant)

    def from_datetime(self, moment: datetime | None) -> Instant | None:
        return None if moment is None else (moment - self._origin) // MICROSECOND

    def queue_latency(self, queue: str, seen_seconds: float) -> float:
        """`statements.submit.QUEUE_LATENCY`, in seconds."""
        alive = self.now() - interval(seen_seconds)
        waits = [
            row.queue_latency_seconds for row in self.workers.values() if row.queue == queue and row.seen_at > alive
        ]
        return min(max(waits, default=0.0), MAX_DWELL_SECONDS)

    # --- what the indexes find

    def head_of(self, tenant_id: str, session_id: str) -> TurnRow | None:
        session = self.sessions.get((tenant_id, session_id))
        return None if session is None else session.head

    def running_in(self, tenant_id: str, session_id: str) -> TurnRow | None:
        session = self.sessions.get((tenant_id, session_id))
        return None if session is None else session.running

    def children_of(self, parent_id: UUID) -> list[TurnRow]:
        return self._by_parent.get(parent_id, [])

    # --- transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; an inner one is part of the outer."""
        if self._undo is not None:
            yield
            return
        undo = self._undo = []
        audited = len(self.changes)
        self._transactions += 1
        try:
            yield
        except BaseException:
            self._undo = []
            for step in reversed(undo):
                step()
            del self.changes[audited:]
            raise
        finally:
            self._undo = None

    def _revert_by(self, step: Callable[[], object]) -> None:
        if self._undo is None:
            raise AssertionError("a change outside of a transaction")
        self._undo.append(step)

    # --- turns

    def next_fence(self) -> int:
        """`nextval('fence_seq')`, which no rollback takes back."""
        self._fences += 1
        return self._fences

    def insert_turn(self, row: TurnRow) -> None:
        """INSERT INTO turns. Raises psycopg.errors.IntegrityError."""
        if row.id in self.turns:
            raise errors.UniqueViolation("turns_pkey")
        check_birth(row)
        check_row(row)
        self.turns[row.id] = row
        self._revert_by(partial(self._remove, row))
        if row.parent_turn_id is not None:
            self._by_parent.setdefault(row.parent_turn_id, []).append(row)
        self._index(row)
        self._audit(row, None)

    def _remove(self, row: TurnRow) -> None:
        self._unindex(row)
        # What the heaps still have of it holds no more.
        row.send_at = row.lease_until = None
        if row.parent_turn_id is not None:
            self._by_parent[row.parent_turn_id].remove(row)
        del self.turns[row.id]

    def update_turn(self, row: TurnRow, **values: Any) -> None:
        """UPDATE turns: the columns that are named are those of the SET list. Raises psycopg.errors.IntegrityError."""
        before = {name: getattr(row, name) for name in values}
        indexed = not INDEXED.isdisjoint(values)
        if indexed:
            self._unindex(row)
        _assign(row, values)
        self._revert_by(partial(self._restore, row, before))
        if "status" in before or "fence" in before:
            check_transition(
                row,
                before.get("status", row.status),
                before.get("fence", row.fence),
                before.get("generation", row.generation),
            )
        check_row(row)
        if indexed:
            self._index(row)
        if is_audited(row, before):
            self._audit(row, before)

    def _restore(self, row: TurnRow, before: dict[str, Any]) -> None:
        self._unindex(row)
        _assign(row, before)
        self._index(row)

    def _index(self, row: TurnRow) -> None:
        session = self.sessions.get((row.tenant_id, row.session_id))
        if session is None:
            raise AssertionError(f"turn {row.id} has no session; every statement of the product makes it first")
        if row.seq is not None:
            if session.by_seq.setdefault(row.seq, row) is not row:
                raise errors.UniqueViolation("turns_session_seq")
            if row.status.is_open:
                insort(session.open, row, key=by_seq)
            if row.status is TurnStatus.SUCCEEDED:
                insort(session.answered, row, key=by_seq)
        if row.status is TurnStatus.RUNNING:
            if session.running is not None:
                raise errors.UniqueViolation("turns_running")
            session.running = row
        if row.send_at is not None:
            unplaced = row.seq is None and row.status is TurnStatus.PENDING
            self._remind(self.scheduled if unplaced else self.due, row.send_at, row)
        if row.lease_until is not None:
            self._remind(self.leases, row.lease_until, row)
        if row.joining is not None:
            self.joining[row.id] = row

    def _remind(self, heap: list[Deadline], at: Instant, row: TurnRow) -> None:
        self._deadlines += 1
        heappush(heap, (at, row.id.int, self._deadlines, row))

    def _unindex(self, row: TurnRow) -> None:
        # Also called to undo an _index that was refused half-way: takes out only what is there. The heaps look after
        # themselves.
        session = self.sessions[row.tenant_id, row.session_id]
        if session.running is row:
            session.running = None
        self.joining.pop(row.id, None)
        if row.seq is None or session.by_seq.get(row.seq) is not row:
            return
        del session.by_seq[row.seq]
        for kept in (session.open, session.answered):
            place = bisect_left(kept, row.seq, key=by_seq)
            if place < len(kept) and kept[place] is row:
                del kept[place]

    def _audit(self, row: TurnRow, before: dict[str, Any] | None) -> None:
        at = self.now() / SECOND
        self.changes.append(make_change(row, before, n=len(self.changes) + 1, at=at, txid=self._transactions))

    # --- what stands around them

    def insert_session(self, tenant_id: str, session_id: str) -> SessionRow:
        now = self.now()
        session = self.sessions[tenant_id, session_id] = SessionRow(tenant_id, session_id, now, now)
        self._revert_by(partial(self.sessions.pop, (tenant_id, session_id)))
        return session

    def update_session(self, session: SessionRow, **values: Any) -> None:
        self._revert_by(partial(_assign, session, {name: getattr(session, name) for name in values}))
        _assign(session, values)

    def insert_message(self, row: MessageRow) -> None:
        said = self.messages.setdefault(row.turn_id, [])
        if any(one.ordinal == row.ordinal for one in said):
            raise errors.UniqueViolation("messages_pkey")
        said.append(row)
        self._revert_by(said.pop)

    def insert_attempt(self, row: AttemptRow) -> None:
        ended = self.attempts.setdefault(row.turn_id, [])
        if any((one.attempt, one.fence) == (row.attempt, row.fence) for one in ended):
            raise errors.UniqueViolation("turn_attempts_pkey")
        ended.append(row)
        self._revert_by(ended.pop)

    def insert_submission(self, row: SubmissionRow) -> bool:
        """INSERT INTO submissions ON CONFLICT DO NOTHING; whether it was inserted."""
        if (row.tenant_id, row.key) in self.submissions:
            return False
        self.submissions[row.tenant_id, row.key] = row
        self._revert_by(partial(self.submissions.pop, (row.tenant_id, row.key)))
        return True

    def insert_value(self, row: ValueRow) -> bool:
        """INSERT INTO turn_values ON CONFLICT DO NOTHING; whether it was inserted."""
        values = self.values.setdefault(row.turn_id, {})
        if row.key in values:
            return False
        values[row.key] = row
        self._revert_by(partial(values.pop, row.key))
        return True

    def delete_submission(self, row: SubmissionRow) -> None:
        del self.submissions[row.tenant_id, row.key]
        self._revert_by(partial(self.submissions.__setitem__, (row.tenant_id, row.key), row))

    def update_submission(self, row: SubmissionRow, **values: Any) -> None:
        self._revert_by(partial(_assign, row, {name: getattr(row, name) for name in values}))
        _assign(row, values)

    def insert_chosen_id(self, row: ChosenIdRow) -> None:
        self.chosen_ids[row.tenant_id, row.turn_id] = row
        self._revert_by(partial(self.chosen_ids.pop, (row.tenant_id, row.turn_id)))

    def update_chosen_id(self, row: ChosenIdRow, **values: Any) -> None:
        self._revert_by(partial(_assign, row, {name: getattr(row, name) for name in values}))
        _assign(row, values)

    def delete_chosen_id(self, row: ChosenIdRow) -> None:
        del self.chosen_ids[row.tenant_id, row.turn_id]
        self._revert_by(partial(self.chosen_ids.__setitem__, (row.tenant_id, row.turn_id), row))

    def put_worker(self, row: WorkerRow) -> None:
        """INSERT INTO workers. What heartbeats write is not taken back: nothing that is refused stands beside it."""
        self.workers[row.worker_id] = row

    def delete_worker(self, row: WorkerRow) -> None:
        del self.workers[row.worker_id]


def _assign(row: object, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
