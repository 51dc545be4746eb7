"""What the doctor may find: the catalogue of its codes. Pure.

The codes, the fields of a finding and the severities are what programs read: they may be added to, never renamed.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnstile.doctor.environment import SeenWorker
    from turnstile.doctor.symptoms import SickTurn
    from turnstile.worker.lock_inspection import HeldLock


class Severity(StrEnum):
    """How bad it is. Errors and warnings end the command with the code for findings, an info does not."""

    ERROR = "error"
    """Something that must hold does not, or a service is away."""
    WARNING = "warning"
    """Nothing is lost, and somebody should look."""
    INFO = "info"
    """Good to know."""


class Remedy(StrEnum):
    """What `--fix` does about it. Each may be repeated, and none of them touches a status, an attempt or a reply."""

    WAKE = "wake"
    """`send_at` is set and a wake-up sent."""
    SEND_DEAD_LETTER = "send-dead-letter"
    """`send_at` is set and the dead letter sent."""
    SWEEP = "sweep"
    """The dead letter is deleted, its row has outlived it."""
    UNLOCK = "unlock"
    """The lock is deleted if it is still the same, and the session's head is woken."""
    FORGET_WORKER = "forget-worker"
    """Its row in the registry is deleted."""
    ADVANCE_FENCES = "advance-fences"
    """Postgres goes on with fences above all that Redis has seen."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One code of the catalogue. `meaning` is for people, `advice` is what is to be done where no remedy is."""

    severity: Severity
    meaning: str
    advice: str
    remedy: Remedy | None = None
    transient: bool = True
    """Whether it may be in motion, so that only what is seen twice counts."""
    blinding: bool = False
    """Whether something could not be looked at because of it."""


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO

CATALOGUE: dict[str, Kind] = {
    "postgres-unreachable": Kind(
        _ERROR, "the database does not answer", "bring it back; submits get 503 meanwhile", blinding=True
    ),
    "redis-unreachable": Kind(
        _ERROR, "Redis does not answer", "bring it back; turns run without locks meanwhile", blinding=True
    ),
    "sqs-unreachable": Kind(
        _ERROR, "SQS does not answer", "bring it back; the relay sends what was not sent", blinding=True
    ),
    "not-looked-at": Kind(_WARNING, "this could not be looked at", "see the reason", transient=False, blinding=True),
    "more-than-listed": Kind(
        _WARNING, "there are more of these than one visit looks at", "repair, and look again", transient=False
    ),
    "schema-missing": Kind(
        _ERROR, "the database has no tables", "run turnstile migrate", transient=False, blinding=True
    ),
    "schema-revision": Kind(
        _ERROR,
        "the tables are of another version than this program",
        "older tables: run turnstile migrate; newer, after going back by one version: nothing",
        transient=False,
    ),
    "guard-missing": Kind(
        _ERROR,
        "a constraint, unique index or trigger of the status table is gone or switched off",
        "put it back; the migrations have its definition",
        transient=False,
    ),
    "clock-skew": Kind(
        _INFO, "this machine's clock and the database's differ", "leases run by the database's", transient=False
    ),
    "fences-behind": Kind(
        _ERROR,
        "Redis has seen higher fences than Postgres gives out: the database has gone back, or its clock",
        "start workers anew, or --fix; see docs/runbooks/restore.md",
        Remedy.ADVANCE_FENCES,
        transient=False,
    ),
    "running-past-lease": Kind(
        _ERROR, "its worker is lost and nobody has taken the turn over", "a wake-up brings a takeover", Remedy.WAKE
    ),
    "pending-without-send-at": Kind(
        _ERROR, "no relay will ever look at it again", "put its guard back", Remedy.WAKE, transient=False
    ),
    "send-overdue": Kind(
        _ERROR, "its message is due and no relay sends it", "start a worker or turnstile relay", Remedy.WAKE
    ),
    "session-stuck": Kind(
        _ERROR, "the session's next turn is due and nobody takes it", "see workers and locks", Remedy.WAKE
    ),
    "session-halted": Kind(
        _WARNING, "the turn failed and halts its session", "turnstile retry TURN or turnstile skip TURN", transient=False
    ),
    "attempts-over-budget": Kind(
        _ERROR, "an open turn has spent more than its budget", "see turnstile status; a defect, please report it"
    ),
    "failed-without-dead-letter": Kind(
        _ERROR, "the turn failed and no dead letter was ever owed", "dlq list does not show it", Remedy.SEND_DEAD_LETTER
    ),
    "dead-letter-overdue": Kind(
        _ERROR, "the turn failed and its dead letter is not out", "see relay and SQS", Remedy.SEND_DEAD_LETTER
    ),
    "reply-missing": Kind(_ERROR, "SUCCEEDED without a reply", "a defect, please report it", transient=False),
    "reply-doubled": Kind(_ERROR, "SUCCEEDED with more than one reply", "a defect, please report it", transient=False),
    "reply-unearned": Kind(
        _ERROR, "a reply of a turn that is not SUCCEEDED", "a defect, please report it", transient=False
    ),
    "undeclared-queue": Kind(
        _WARNING, "open turns of a queue that these settings do not declare", "declare it, or ask its owners"
    ),
    # The turns themselves are the errors: this names their queue, and how many there are.
    "queue-not-relayed": Kind(
        _INFO,
        "messages of the queue are due and no relay sends them",
        "run a relay that declares the queue and may send to it; its log says relay.not_sent where it may not",
    ),
    "no-worker": Kind(_ERROR, "turns are due and no worker of their queue is alive", "start a worker"),
    "worker-silent": Kind(
        _WARNING, "a worker ended without a word", "its turns are taken over; see why", Remedy.FORGET_WORKER
    ),
    "webhooks-overdue": Kind(
        _WARNING,
        "completion webhooks are due and nobody delivers them",
        "set TURNSTILE_WEBHOOK_HOSTS where the relay runs, too",
    ),
    "lock-without-row": Kind(
        _WARNING, "a lock of a session in which nothing runs, by a worker that is gone", "it expires by itself"
    ),
    "lock-for-ever": Kind(_ERROR, "a lock without a time to live", "its worker's heartbeat gives it one"),
    "lock-left-for-ever": Kind(
        _ERROR, "a lock without a time to live, by a worker that is gone", "it turns every wake-up away", Remedy.UNLOCK
    ),
    "queue-missing": Kind(_ERROR, "SQS has no such queue", "turnstile queues create, or Terraform", transient=False),
    "redrive-policy-missing": Kind(
        _INFO, "the queue has no RedrivePolicy", "it is only a backstop", transient=False
    ),
    "redrive-policy-elsewhere": Kind(
        _WARNING, "the RedrivePolicy names another queue than the declared DLQ", "let it name the DLQ", transient=False
    ),
    "redrive-policy-hasty": Kind(
        _WARNING, "SQS moves wake-ups away that were only met by a busy session", "maxReceiveCount 1000", transient=False
    ),
    "dlq-retention-short": Kind(
        _INFO, "dead letters are kept for less than 14 days", "the FAILED rows stay", transient=False
    ),
    "dead-letters-waiting": Kind(
        _WARNING, "dead letters of FAILED turns lie on the DLQ", "turnstile dlq list, then turnstile redrive; or purge it"
    ),
    "dead-letter-outlived": Kind(
        _WARNING, "a dead letter whose turn has moved on", "the next redrive sweeps it", Remedy.SWEEP
    ),
    "dead-letter-of-succeeded": Kind(
        _WARNING, "a dead letter of a turn that has SUCCEEDED", "the next redrive sweeps it", Remedy.SWEEP
    ),
    "dead-letter-moved-by-sqs": Kind(
        _WARNING, "a wake-up that SQS moved to the DLQ", "find out why it was received so often", Remedy.SWEEP
    ),
    "dead-letter-malformed": Kind(
        _WARNING, "a message on the DLQ that is none of ours", "turnstile dlq list --messages --show-text"
    ),
    "dead-letter-of-nobody": Kind(
        _WARNING, "a dead letter of a turn that no row knows", "of another environment, or a restored database"
    ),
    "dead-letter-missing": Kind(
        _WARNING, "a FAILED turn whose dead letter is not on the DLQ", "purged or moved", Remedy.SEND_DEAD_LETTER
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong with one subject. `mark` changes when the subject moves on; the rest may be absent."""

    code: str
    subject: str
    detail: str = ""
    mark: str = ""
    since: datetime | None = None
    tenant_id: str | None = None
    session_id: str | None = None
    turn_id: str | None = None
    queue: str | None = None
    turn: "SickTurn | None" = None
    lock: "HeldLock | None" = None
    worker: "SeenWorker | None" = None
    fence: int | None = None
    """The highest that was seen."""
    fixed: bool | None = None
    """None: nothing was tried."""

    @property
    def kind(self) -> Kind:
        """What the catalogue says of its code."""
        return CATALOGUE[self.code]

    @property
    def key(self) -> tuple[str, str, str]:
        """The same in a second look, as long as the subject has not moved on."""
        return self.code, self.subject, self.mark

    def after(self, *, fixed: bool) -> "Finding":
        """The finding after a repair was tried."""
        return replace(self, fixed=fixed)

    def as_document(self) -> dict[str, Any]:
        """What programs read."""
        kind = self.kind
        return {
            "severity": kind.severity.value,
            "code": self.code,
            "subject": self.subject,
            "tenant_id": self.tenant_id,
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "queue": self.queue,
            "since": self.since,
            "meaning": kind.meaning,
            "detail": self.detail,
            "advice": kind.advice,
            "remedy": kind.remedy.value if kind.remedy else None,
            "fixed": self.fixed,
        }
