"""Why a turn waits, as `ops.why.decision` finds it: a code, its words, and its facts. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from turnstile.ops.terminal.output import short_duration, short_time


class Code(StrEnum):
    """All reasons, in the order in which one hides the next. `docs/runbooks/session-does-not-move.md` explains each."""

    ENDED = "ended"
    """The turn does not wait: it is SUCCEEDED, FAILED or CANCELED."""
    AT_REST = "at-rest"
    """The session has no open turn, and all its turns are in the archive."""
    ERASING = "erasing"
    """The session is being erased."""
    HALTED = "halted"
    """A FAILED turn halts the session."""
    BEHIND = "behind"
    """It waits for an earlier turn of its session."""
    RUNNING = "running"
    """Its worker renews its lease."""
    LOST = "lost"
    """Its lease ran out: its worker is lost, or can't renew the lease."""
    JOINING = "joining"
    """It waits for its children."""
    RETRY = "retry"
    """Its last attempt failed, and the next one has to wait."""
    SNOOZED = "snoozed"
    """Its handler has postponed it."""
    SCHEDULED = "scheduled"
    """It may not begin before a time."""
    PAUSED = "paused"
    """Operators have paused the queue."""
    NO_WORKER = "no-worker"
    """No worker of the queue is alive and takes turns."""
    LOCKED = "locked"
    """Another transaction keeps its row locked, or its session's."""
    QUARANTINED = "quarantined"
    """It has a crash on its record, and each worker runs a turn that it may not run together with."""
    LOCK_WITHOUT_ROW = "lock-without-row"
    """A worker has the session's lock in Redis, and no turn of the session is RUNNING."""
    NOT_SENT = "not-sent"
    """Its wake-up is due, and no relay has sent it: none serves the queue, or SQS refuses it."""
    LIMITED = "limited"
    """A limit for all workers has no place or no token for it now, or is paused."""
    TENANT_FULL = "tenant-full"
    """In each worker its tenant has as many slots as it may have."""
    SLOTS_BUSY = "slots-busy"
    """All slots of all workers are in use."""
    SENT_IN_VAIN = "sent-in-vain"
    """Relays have sent wake-ups for it, and no worker has claimed it."""
    NOT_BEGUN = "not-begun"
    """No worker has claimed it yet. Its first wake-up was sent, unless SQS refused it, or is about to be sent."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one turn waits."""

    code: Code
    headline: str
    evidence: Sequence[str] = ()
    commands: Sequence[str] = ()
    """Each of them would move the turn. Empty: it need not be moved, or no command can."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the code stands on, for programs: part of the JSON output."""

    def as_document(self) -> dict[str, Any]:
        return {"code": self.code, **self.facts}


def wake_command(turn_id: UUID) -> str:
    return f"turnstile wake {turn_id}"


def when(word: str, moment: datetime | None, now: datetime | None) -> str:
    """A moment in words, such as `since 2026-11-21 08:59:50Z (10s ago)`; without `now`, only the time."""
    if moment is None:
        return f"{word} an unknown time"
    if now is None:
        return f"{word} {short_time(moment)}"
    seconds = (moment - now).total_seconds()
    distance = f"in {short_duration(seconds)}" if seconds >= 0 else f"{short_duration(-seconds)} ago"
    return f"{word} {short_time(moment)} ({distance})"
