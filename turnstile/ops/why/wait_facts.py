"""What the tables and the session lock show of a turn that may wait. Pure: `ops.why.read_wait_facts` reads it.

All times are the database's, as is `WaitFacts.at`: they may be compared with each other.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

MOST_OLDER = 1000
"""How many older turns are counted at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChild:
    """A child that has not ended."""

    id: UUID
    session_id: str
    status: TurnStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAttempt:
    """The last attempt of the turn's generation that has ended."""

    outcome: AttemptOutcome
    error_class: str | None
    error: str | None
    """The error's text, or the reason of a snooze or a hand-back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTurn:
    """One row of the status table."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int | None
    queue: str
    status: TurnStatus
    attempt: int
    crashes: int
    hand_backs: int
    """Of a RUNNING turn, as in `ClaimedTurn`."""
    worker_id: str | None
    lease_until: datetime | None
    execute_at: datetime | None
    send_at: datetime | None
    sends: int
    expires_at: datetime
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    error_class: str | None
    error: str | None
    created_at: datetime
    queued_at: datetime
    first_started_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    children: int
    """How many children it waits for; 0 if it does not join."""
    open_children: tuple[OpenChild, ...]
    """Those of them that have not ended."""
    last_attempt: LastAttempt | None

    @property
    def due_since(self) -> datetime:
        """Since when it may be claimed if it is the head; in the future if it waits for a time."""
        return self.execute_at or self.created_at


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHalt:
    """The FAILED turn that halts the session."""

    turn_id: UUID
    error_class: str | None
    error: str | None
    since: datetime | None


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
    """Whether it was seen lately, by its own lease."""
    running: int
    """RUNNING turns that it has claimed."""
    running_of_tenant: int
    """Those of the tenant in question."""
    most_crashes: int
    """The most crashes that one of those turns has on its record; 0 if none has any."""
    host: str
    pid: int
    blocked_for_seconds: float
    """For how long its event loop had been blocked at its last heartbeat; 0: it was not."""
    blocked_by: UUID | None
    """The turn whose handler blocks it, if that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQueue:
    pause: SeenPause | None
    workers: tuple[SeenWorker, ...]
    older: int
    """Turns of the queue that are due and have been for longer than the head, MOST_OLDER at most; 0 if the head is not due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLock:
    """The session's lock in Redis."""

    key: str
    worker_id: str
    """The worker that its token names."""
    seconds_left: float
    """Infinite: it never expires."""


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
    """The head of its session, perhaps the turn itself; None if no turn of the session is open and has a `seq`."""
    halt: SeenHalt | None
    queue: SeenQueue
    """The head's queue; the turn's if there is no head."""
    row_lock: SeenRowLock | None = None
    """Of the head's row, or of the turn's if there is no head."""
    lock: SeenLock | None = None
    """None: nobody has it, or Redis was not asked."""
