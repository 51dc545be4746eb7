"""The tables of the fake store: rows, the indexes that make each call cheap, and what the database itself enforces.

Every change goes through here, because here is what a statement can't get around: the CHECKs and the trigger of
migration 0001, its unique indexes, the audit that the chaos harness's trigger would write, and the rollback.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from psycopg import errors

from tests.proof.checker.tables import Change
from tests.support.fakes.store_audit import is_audited, make_change
from tests.support.fakes.store_constraints import check_birth, check_row, check_transition
from tests.support.fakes.store_rows import (
    MICROSECOND,
    SECOND,
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
    by_id,
    by_seq,
    interval,
)
from turnstile.statements.worker_registry import SILENT_LEASES
from turnstile.turn.status import TurnStatus

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_QUEUE_LATENCY_SECONDS = 900.0
INDEXED = frozenset({"status", "seq", "send_at", "lease_until", "joining"})

Parameters = Mapping[str, Any]
Rows = list[dict[str, Any]]
Statement = Callable[["Tables", Parameters], Rows]
Row = TypeVar("Row")


def unnest(parameters: Parameters, *names: str) -> Iterator[tuple[Any, ...]]:
    """The rows that a statement's arrays make, one array a column."""
    return zip(*(parameters[name] for name in names), strict=True)


class Tables:
    """All rows. `now` is the virtual clock in seconds, `origin` the moment at which it stands at 0."""

    def __init__(self, now: Callable[[], float], origin: datetime = EPOCH) -> None:
        self._clock = now
        self._origin = origin
        self._undo: list[Callable[[], object]] | None = None
        self._transactions = 0
        self._fences = 0
        self.turns: dict[UUID, TurnRow] = {}
        self.sessions: dict[Key, SessionRow] = {}
        self.messages: dict[UUID, list[MessageRow]] = {}
        self.attempts: dict[UUID, list[AttemptRow]] = {}
        self.submissions: dict[Key, SubmissionRow] = {}
        self.chosen_ids: dict[tuple[str, UUID], ChosenIdRow] = {}
        self.values: dict[UUID, dict[str, ValueRow]] = {}
        self.workers: dict[str, WorkerRow] = {}
        self.redrives = 0
        self.changes: list[Change] = []
        self.timed: dict[UUID, TurnRow] = {}
        """The turns with a `send_at` or a lease: all that is open or owed."""
        self.joining: dict[UUID, TurnRow] = {}
        """The turns that wait for children: index `turns_joining`."""
        self.turns_locked = 0
        """How many transactions have locked the whole table of turns: it is read, and not written."""
        self.turns_backfilled = 0
        """How many transactions have updated all turns and stay open: a renewal and a mark skip their rows."""
        self._by_parent: dict[UUID, list[TurnRow]] = {}

    # --- time

    def now(self) -> Instant:
        """`now()` and `clock_timestamp()`: a statement takes no time here."""
        return round(self._clock() * SECOND)

    def to_datetime(self, instant: Instant | None) -> datetime | None:
        return None if instant is None else self._origin + timedelta(microseconds=instant)

    def from_datetime(self, moment: datetime | None) -> Instant | None:
        return None if moment is None else (moment - self._origin) // MICROSECOND

    def queue_latency(self, queue: str) -> float:
        """`statements.submit.QUEUE_LATENCY`, in seconds."""
        now = self.now()
        waits = [
            row.queue_latency_seconds
            for row in self.workers.values()
            if row.queue == queue and row.seen_at > now - interval(SILENT_LEASES * row.lease_seconds)
        ]
        return min(max(waits, default=0.0), MAX_QUEUE_LATENCY_SECONDS)

    # --- what the indexes find

    def find(self, ids: Iterable[UUID]) -> list[TurnRow]:
        return sorted((self.turns[turn_id] for turn_id in set(ids) if turn_id in self.turns), key=by_id)

    def find_claimed(self, turn_id: UUID | None, fence: int) -> TurnRow | None:
        """The turn, if that claim of it is the present one."""
        row = self.turns.get(turn_id) if turn_id is not None else None
        return row if row is not None and row.fence == fence and row.status is TurnStatus.RUNNING else None

    def find_failed(self, turn_id: UUID, generation: int | None = None) -> TurnRow | None:
        """The turn, if it is FAILED, and in that generation."""
        row = self.turns.get(turn_id)
        if row is None or row.status is not TurnStatus.FAILED or generation not in (None, row.generation):
            return None
        return row

    def session_of(self, row: TurnRow) -> SessionRow:
        return self.sessions[row.tenant_id, row.session_id]

    def head_of(self, tenant_id: str, session_id: str) -> TurnRow | None:
        session = self.sessions.get((tenant_id, session_id))
        return None if session is None else session.head

    def inputs_of(self, turn_id: UUID) -> list[MessageRow]:
        return [one for one in self.messages.get(turn_id, ()) if (one.role, one.kind) == ("user", "message")]

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
        if row.send_at is not None or row.lease_until is not None:
            self.timed[row.id] = row
        if row.joining is not None:
            self.joining[row.id] = row

    def _unindex(self, row: TurnRow) -> None:
        # Also called to undo an _index that was refused half-way: takes out only what is there.
        session = self.sessions[row.tenant_id, row.session_id]
        if session.running is row:
            session.running = None
        self.timed.pop(row.id, None)
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

    # --- all other rows

    def insert(self, table: dict[Any, Row], key: object, row: Row) -> bool:
        """INSERT ... ON CONFLICT DO NOTHING; whether it was inserted."""
        if key in table:
            return False
        table[key] = row
        self._revert_by(partial(table.pop, key))
        return True

    def update(self, row: object, **values: Any) -> None:
        self._revert_by(partial(_assign, row, {name: getattr(row, name) for name in values}))
        _assign(row, values)

    def delete(self, table: dict[Any, Row], key: object) -> None:
        self._revert_by(partial(table.__setitem__, key, table.pop(key)))

    def insert_session(self, tenant_id: str, session_id: str) -> SessionRow:
        session = SessionRow(tenant_id, session_id, self.now(), self.now())
        self.insert(self.sessions, (tenant_id, session_id), session)
        return session

    def take_seq(self, session: SessionRow) -> int:
        self.update(session, last_seq=session.last_seq + 1, updated_at=self.now())
        return session.last_seq

    def insert_message(self, turn_id: UUID, role: str, content: Any, kind: str = "message") -> MessageRow:
        said = self.messages.setdefault(turn_id, [])
        said.append(MessageRow(turn_id, len(said), role, content, self.now(), kind))
        self._revert_by(said.pop)
        return said[-1]

    def insert_attempt(self, row: AttemptRow) -> None:
        ended = self.attempts.setdefault(row.turn_id, [])
        ended.append(row)
        self._revert_by(ended.pop)


def _assign(row: object, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
