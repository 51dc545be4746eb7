"""What the tables and the session lock show of a turn that may wait. Pure: `ops.why.read_wait_facts` reads it.

All times are the database's, as is `WaitFacts.at`: they may be compared with each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord
from turnstile.worker.slots.tenant_fairness import TenantShare

MAX_OLDER_TURNS = 1000
"""How many older turns are counted at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChild:
    """A child that has not ended."""

    id: UUID
    session_id: str
    status: TurnStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAttempt:
    """The last ended attempt of the turn's present generation."""

    outcome: AttemptOutcome
    error_class: str | None
    error: str | None
    """The error's text, or the reason of a snooze or a hand-back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTurn(TurnRecord):
    """One row of the status table without its messages and its webhook, and what its wait depends on."""

    queued_at: datetime
    """Never None: only an old archive lacks it."""
    lease_until: datetime | None
    send_at: datetime | None
    sends: int
    hand_backs: int
    """Hand-backs of a RUNNING turn, as in `ClaimedTurn`."""
    open_children: tuple[OpenChild, ...]
    """Those of `joining` that have not ended."""
    last_attempt: LastAttempt | None

    @property
    def due_since(self) -> datetime:
        """From this time on it may be claimed, if it is the head. A time in the future: it waits until then."""
        return self.execute_at or self.created_at

    def as_document(self) -> dict[str, Any]:
        shown = ("id", "seq", "queue", "status", "attempt", "queued_at", "started_at")
        return {name: getattr(self, name) for name in shown}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHalt:
    """The FAILED turn that halts the session."""

    turn_id: UUID
    error_class: str | None
    error: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenErasure:
    """The erasure that is under way in the session. It halts the session until it has ended."""

    erasure_id: UUID
    requested_by: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPause:
    """Who has paused the queue."""

    by: str
    since: datetime
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A worker of the queue that was seen within a day."""

    worker_id: str
    slots: int
    busy: int
    """Slots in use at its last heartbeat."""
    draining: bool
    seen_at: datetime
    alive: bool
    """Whether its last heartbeat is recent, measured by its own lease."""
    running: int
    """RUNNING turns that it has claimed."""
    running_of_tenant: int
    """Those of the tenant in question."""
    most_crashes: int
    """The most crashes that one of those turns has on its record; 0 if none has any."""
    host: str
    pid: int
    blocked_for_seconds: float
    """How long its event loop had been blocked at its last heartbeat; 0: it was not."""
    blocked_by: UUID | None
    """The turn whose handler blocks it, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQueue:
    pause: SeenPause | None
    workers: tuple[SeenWorker, ...]
    older_turn_count: int
    """How many turns of the queue have been due for longer than the head: MAX_OLDER_TURNS at most. 0 if the head is not due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLock:
    """The session's lock in Redis."""

    key: str
    worker_id: str
    """The worker that its token names."""
    seconds_left: float
    """Infinite: it never expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLimit:
    """A limit that the turn needs a place or tokens of, as it is now."""

    limit: str
    value: str
    places: int
    """What the turn takes; 0: the limit has no places."""
    concurrency: int | None
    running: int
    """Places in use."""
    waiting: int
    """Sessions that wait."""
    paused_seconds: float
    """How long nothing may begin; 0: it is not paused."""
    slot_seconds: float
    """In how long the session may use its tokens; 0: now, or it has none."""

    @property
    def refuses(self) -> bool:
        full = self.concurrency is not None and self.running + self.places > self.concurrency
        return full or self.paused_seconds > 0 or self.slot_seconds > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRowLock:
    """A transaction that keeps the row of a turn, or of its session, locked for longer than a moment."""

    pid: int
    """Its process in Postgres."""
    user_name: str | None
    application: str | None
    since: datetime | None
    """The start of the transaction; None if this role may not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFacts:
    """All that bears on why one turn waits."""

    at: datetime
    """When the tables were read."""
    turn: SeenTurn
    """The turn in question."""
    head: SeenTurn | None
    """The head of its session, perhaps the turn itself. None: the session has no open turn with a `seq`."""
    halt: SeenHalt | None
    erasure: SeenErasure | None
    queue: SeenQueue
    """The queue of the head; without a head, that of the turn."""
    row_lock: SeenRowLock | None = None
    """The lock on the head's row; without a head, on the turn's."""
    lock: SeenLock | None = None
    """None: nobody has it, or Redis was not asked."""
    limits: tuple[SeenLimit, ...] = ()
    """Those of the head. Empty: it has none, or Redis was not asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitTerms:
    """What counts as late, and the workers' limits. From the operator's settings: those of the workers may differ."""

    overdue_seconds: float
    """How long a wake-up may be due before relays count as silent."""
    tenant_share: TenantShare
    max_crashes: Mapping[str, int] = field(default_factory=dict)
    """The limit of each queue that is declared here."""
