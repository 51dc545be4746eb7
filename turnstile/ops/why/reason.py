"""What a turn can wait for. A closed union: `ops.why.decision` makes it, `ops.why.words` says it. Pure."""

import re
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from turnstile.ops.why.wait_facts import OpenChild, SeenTurn
from turnstile.turn.status import TurnStatus
from turnstile.worker.slots.tenant_fairness import TenantShare


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The turn waits for nothing any more."""

    status: TurnStatus
    since: datetime | None
    error_class: str | None = None
    error: str | None = None
    cancel_reason: str | None = None
    archived: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRest:
    """The session has no open turn, and all its turns are in the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Halted:
    """A FAILED turn halts the session."""

    turn_id: UUID
    error_class: str | None
    error: str | None
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBlock:
    """A handler blocks the event loop of the turn's worker, as of the worker's last heartbeat: none of its turns goes on."""

    since: datetime
    by: UUID | None
    """The turn of that handler, perhaps the turn itself; None: unknown."""
    host: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Its worker renews its lease."""

    worker_id: str | None
    since: datetime | None
    lease_until: datetime | None
    seen_at: datetime | None
    """The worker's last heartbeat, if it is on record."""
    crashes: int = 0
    """How many workers died while they ran it."""
    hand_backs: int = 0
    """How many of its last attempts were handed back at a shutdown."""
    crashes_left: int | None = None
    """How many more may die, the last of them with its end as FAILED; None: the queue is not declared here."""
    block: WorkerBlock | None = None
    cancel_requested_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """It may not begin before a time."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Its last attempt failed, and the next one has to wait."""

    until: datetime
    attempt: int
    error_class: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """Its handler has put it off."""

    until: datetime
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """It waits for its children. Without `open_children` their end is not noticed yet."""

    children: int
    open_children: tuple[OpenChild, ...]
    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """Operators have paused the queue."""

    queue: str
    by: str
    since: datetime
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWorker:
    """No worker of the queue is alive and takes turns."""

    queue: str
    draining: int
    """Workers that are alive, but shut down."""
    last_seen_at: datetime | None
    """The last heartbeat of any worker of the queue, if one is on record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """It has a crash on record, and in each worker runs a turn beside which it may not run."""

    crashes: int
    """On its record, with the loss of the worker that ran it."""
    alone: bool
    """Whether one more would end it: then it runs beside no other turn with a crash on record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """Another transaction keeps its row locked, or its session's."""

    pid: int
    """Its process in Postgres."""
    user_name: str | None
    application: str | None
    since: datetime | None
    """The start of the transaction; None if this role may not see it."""
    running_in: str | None
    """The worker that runs the turn meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Its lease ran out: its worker is lost, or can't renew."""

    worker_id: str | None
    since: datetime | None
    lease_until: datetime | None
    seen_at: datetime | None
    marked: bool
    """Whether a relay has marked it as lost: only then a worker takes it over."""
    obstacle: Paused | NoWorker | Locked | Quarantined | None
    """Why no worker takes it over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockWithoutRow:
    """A worker has the session's lock, and no turn of the session is RUNNING."""

    key: str
    worker_id: str
    seconds_left: float
    worker_is_alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NotSent:
    """Its wake-up is due, and no relay has sent it: none serves the queue, or SQS refuses it."""

    queue: str
    since: datetime
    placed: bool
    """False: it was scheduled, and no relay has given it its place in the session."""
    workers: int
    """Workers of the queue that are alive. Most have a relay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantFull:
    """In each worker its tenant has as many slots as it may have."""

    tenant_id: str
    running: int
    workers: int
    share: TenantShare


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsBusy:
    """All slots of all workers are in use."""

    queue: str
    workers: int
    slots: int
    older: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SentInVain:
    """Relays have sent wake-ups for it, and no worker has claimed it."""

    queue: str
    since: datetime
    sends: int
    next_at: datetime | None
    older: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OnItsWay:
    """It is due, and its first wake-up was sent when it became due, unless SQS refused it, or is about to be sent."""

    since: datetime
    next_at: datetime | None
    """When a relay sends (again)."""
    older: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """It waits for an earlier turn of its session."""

    head: SeenTurn
    reason: "Reason"
    """What that turn waits for."""


Reason = (
    Ended | AtRest | Halted | Running | Scheduled | Retry | Snoozed | Joining | Paused | NoWorker | Lost | Locked | Quarantined
    | LockWithoutRow | NotSent | TenantFull | SlotsBusy | SentInVain | OnItsWay | Behind
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Why one turn, or the head of one session, waits."""

    tenant_id: str
    session_id: str
    turn_id: UUID | None
    """None: all turns of the session are in the archive."""
    turn: SeenTurn | None
    """None: the turn is in the archive."""
    reason: Reason
    at: datetime | None = None
    """When the tables were read, by the database's clock; None if the turn was not in them."""
    redis_away: str | None = None
    """Why the session's lock could not be looked at; None: it was, or it does not matter."""
    foreign_lock: str | None = None
    """The key of the session's lock, if no worker has set it: it stops none."""

    @property
    def expired_at(self) -> datetime | None:
        """The end of a waiting turn's time, if it is over: the turn still begins, but no retry and no snooze does after that."""
        turn, at = self.turn, self.at
        if turn is None or at is None or turn.status is not TurnStatus.PENDING or turn.expires_at > at:
            return None
        return turn.expires_at


def code_of(kind: type[Reason]) -> str:
    """The name of a kind of reason for programs, such as `lock-without-row`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


def as_document(answer: Answer) -> dict[str, Any]:
    """The answer for JSON."""
    return {
        "at": answer.at,
        "tenant_id": answer.tenant_id,
        "session_id": answer.session_id,
        "turn": _turn(answer.turn) if answer.turn is not None else answer.turn_id and {"id": answer.turn_id},
        "reason": _reason(answer.reason),
        "expired_at": answer.expired_at,
        "redis_away": answer.redis_away,
        "foreign_lock": answer.foreign_lock,
    }


def _reason(reason: Reason) -> dict[str, Any]:
    match reason:
        case Behind(head=head, reason=of_head):
            return {"code": code_of(type(reason)), "head": _turn(head), "reason": _reason(of_head)}
        case Lost(obstacle=Paused() | NoWorker() | Locked() | Quarantined() as obstacle):
            return {"code": code_of(type(reason)), **asdict(reason), "obstacle": _reason(obstacle)}
        case _:
            return {"code": code_of(type(reason)), **asdict(reason)}


def _turn(turn: SeenTurn) -> dict[str, Any]:
    shown = ("id", "seq", "queue", "status", "attempt", "queued_at", "started_at")
    return {name: getattr(turn, name) for name in shown}
