"""The rows of the fake store: the tables of migration 0001, column by column; and times and JSON as Postgres has them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import Any, NoReturn
from uuid import UUID

from psycopg import errors

from turnstile.turn.status import TurnStatus

Instant = int
"""Microseconds since the store's origin. Whole, as in Postgres: a relay's stamp is recognised by equality."""

SECOND = 1_000_000
MICROSECOND = timedelta(microseconds=1)

Key = tuple[str, str]
"""(tenant_id, session_id), or (tenant_id, key) of a submission."""


@dataclass(slots=True, eq=False, kw_only=True)
class TurnRow:
    id: UUID
    tenant_id: str
    session_id: str
    queue: str
    expires_at: Instant
    trace_id: str
    span_id: str
    created_at: Instant
    queued_at: Instant
    send_at: Instant | None
    seq: int | None = None
    status: TurnStatus = TurnStatus.PENDING
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    max_attempts: int | None = None
    generation: int = 1
    fence: int = 0
    claim_id: UUID | None = None
    lease_until: Instant | None = None
    worker_id: str | None = None
    execute_at: Instant | None = None
    sends: int = 0
    timeout_seconds: float | None = None
    cancel_requested_at: Instant | None = None
    cancel_reason: str | None = None
    error_class: str | None = None
    error: str | None = None
    dead_lettered_at: Instant | None = None
    dropped_at: Instant | None = None
    dropped_by: str | None = None
    parent_span_id: str | None = None
    parent_turn_id: UUID | None = None
    kind: str = "turn"
    child_key: str | None = None
    joining: list[UUID] | None = None
    join_policy: str | None = None
    webhook_url: str | None = None
    metadata: Any = field(default_factory=dict)
    first_started_at: Instant | None = None
    started_at: Instant | None = None
    finished_at: Instant | None = None

    @property
    def due_at(self) -> Instant:
        return max(self.queued_at, self.execute_at or self.queued_at)

    def is_due(self, now: Instant) -> bool:
        return self.status is TurnStatus.PENDING and (self.execute_at is None or self.execute_at <= now)

    def is_lost(self, now: Instant) -> bool:
        """RUNNING, with a lease that is over."""
        return self.lease_until is not None and self.lease_until < now


@dataclass(slots=True, eq=False)
class SessionRow:
    """A row of `sessions`, with what the indexes on `turns` know of it."""

    tenant_id: str
    session_id: str
    created_at: Instant
    updated_at: Instant
    last_seq: int = 0
    halted_by: UUID | None = None
    open: list[TurnRow] = field(default_factory=list)
    """The open turns that have a place, by `seq`: index `turns_open`."""
    answered: list[TurnRow] = field(default_factory=list)
    """The SUCCEEDED ones, by `seq`."""
    by_seq: dict[int, TurnRow] = field(default_factory=dict)
    running: TurnRow | None = None

    @property
    def head(self) -> TurnRow | None:
        return self.open[0] if self.open else None


@dataclass(slots=True, eq=False)
class MessageRow:
    turn_id: UUID
    ordinal: int
    role: str
    content: Any
    created_at: Instant
    kind: str = "message"


@dataclass(slots=True, eq=False, kw_only=True)
class AttemptRow:
    turn_id: UUID
    attempt: int
    fence: int
    generation: int
    worker_id: str | None
    release: str
    due_at: Instant
    started_at: Instant | None
    finished_at: Instant
    outcome: str
    error_class: str | None = None
    error: str | None = None
    traceback: str | None = None


@dataclass(slots=True, eq=False, kw_only=True)
class SubmissionRow:
    tenant_id: str
    key: str
    fingerprint: bytes
    turn_id: UUID
    answer: Any
    created_at: Instant


@dataclass(slots=True, eq=False)
class ChosenIdRow:
    tenant_id: str
    turn_id: UUID
    created_at: Instant
    submitted_at: Instant | None = None
    canceled_at: Instant | None = None
    reason: str | None = None


@dataclass(slots=True, eq=False)
class ValueRow:
    turn_id: UUID
    key: str
    value: Any
    fence: int
    created_at: Instant


@dataclass(slots=True, eq=False, kw_only=True)
class WorkerRow:
    worker_id: str
    queue: str
    host: str
    pid: int
    slots: int
    busy: int
    queue_latency_seconds: float
    draining: bool
    version: str
    release: str
    deaf_for_seconds: float
    blocked_for_seconds: float
    unrenewed: list[UUID]
    blocked_by: UUID | None
    starved_for_seconds: float
    lease_seconds: float
    started_at: Instant
    seen_at: Instant
    lost_at: Instant | None = None


by_seq = attrgetter("seq")
by_id = attrgetter("id")


def interval(length_seconds: float) -> Instant:
    return round(length_seconds * SECOND)


def seconds(instant: Instant | None) -> float | None:
    return None if instant is None else instant / SECOND


def columns(row: object, names: Sequence[str]) -> dict[str, Any]:
    """Some columns of a row, as an answer has them."""
    return {name: getattr(row, name) for name in names}


def json_value(text: str) -> Any:
    """A value as the type json takes it. Raises psycopg.DataError for what Postgres refuses."""
    return _DECODER.decode(text)


def _refuse_constant(name: str) -> NoReturn:
    raise errors.InvalidTextRepresentation(f"invalid input syntax for type json: {name}")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
