"""An audit event: who did what to whom, how many, and why. It never has what a user or a handler said. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

MOST_NAME_CHARACTERS = 300
MOST_REASON_CHARACTERS = 1000
"""A longer text is cut: a row must stay small, whoever fills it."""


class AuditKind(StrEnum):
    """Every kind of event. `docs/audit.md` says of each what its subject and its counts are."""

    KEY_CREATED = "key.created"
    KEY_ROTATED = "key.rotated"
    KEY_REVOKED = "key.revoked"
    KEY_REFUSED = "key.refused"
    LIMIT_SET = "limit.set"
    LIMIT_REMOVED = "limit.removed"
    TURNS_REDRIVEN = "turns.redriven"
    TURNS_DROPPED = "turns.dropped"
    TURNS_CANCELED = "turns.canceled"
    TURN_RETRIED = "turn.retried"
    TURN_SKIPPED = "turn.skipped"
    TURN_WOKEN = "turn.woken"
    TURNS_ARCHIVED = "turns.archived"
    FINDINGS_REPAIRED = "findings.repaired"
    MESSAGES_DELETED = "messages.deleted"
    TEXT_READ = "text.read"
    QUEUE_PAUSED = "queue.paused"
    QUEUE_RESUMED = "queue.resumed"
    TABLES_MIGRATED = "tables.migrated"
    ROLES_GRANTED = "roles.granted"
    SESSION_ERASED = "session.erased"
    TENANT_ERASED = "tenant.erased"
    WEBHOOK_SECRET_SHOWN = "webhook_secret.shown"  # noqa: S105
    WEBHOOK_SECRET_ROTATED = "webhook_secret.rotated"  # noqa: S105
    WEBHOOK_SECRET_REVOKED = "webhook_secret.revoked"  # noqa: S105


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """Who did what to whom, how many, and why."""

    kind: AuditKind
    actor: str
    """Who did it: an operator (`Operator.name`), a caller of the API (`key PREFIX`), or an address (`address 192.0.2.1`)."""
    subject: str
    """What it was done to, by name or id: `queue turns`, `turn 0198…`, `key PREFIX`."""
    tenant_id: str | None = None
    """The tenant, if it is about one."""
    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """How many, by a word such as `turns`."""
    reason: str | None = None
    """Why, as the actor gave it."""

    def as_fields(self) -> dict[str, Any]:
        """The fields by the names of the table's columns, with long texts cut."""
        return {
            "kind": self.kind.value,
            "actor": self.actor[:MOST_NAME_CHARACTERS],
            "tenant_id": self.tenant_id,
            "subject": self.subject[:MOST_NAME_CHARACTERS],
            "counts": dict(self.counts),
            "reason": self.reason and self.reason[:MOST_REASON_CHARACTERS],
        }
