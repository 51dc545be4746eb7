"""The audit, as an operator reads it: newest first, by the table's key."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import LiteralString

from turnstile.audit.event import AuditKind
from turnstile.backends.postgres.database import Database

READ: LiteralString = """
SELECT id, kind, actor, tenant_id, subject, counts, reason, created_at FROM audit
 WHERE (%(kind)s::text IS NULL OR kind = %(kind)s::text)
   AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s::text)
   AND (%(actor)s::text IS NULL OR actor = %(actor)s::text)
   AND (%(since_seconds)s::float8 IS NULL OR created_at >= now() - make_interval(secs => %(since_seconds)s::float8))
   AND (%(before)s::bigint IS NULL OR id < %(before)s::bigint)
 ORDER BY id DESC LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which events. A field that is left out matches all."""

    kind: AuditKind | None = None
    tenant_id: str | None = None
    actor: str | None = None
    since_seconds: float | None = None
    """Only those that were recorded within this time."""
    before: int | None = None
    """Only those that were recorded before the event with this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """A row of the audit."""

    id: int
    kind: str
    """Of a newer version it may be none of `AuditKind`."""
    actor: str
    tenant_id: str | None
    subject: str
    counts: dict[str, int]
    reason: str | None
    created_at: datetime


async def read_audit(database: Database, wanted: AuditFilter, limit: int) -> list[RecordedEvent]:
    """The last `limit` events that match, newest first. Raises DatabaseUnavailableError."""
    rows = await database.fetch(READ, {**asdict(wanted), "limit": limit})
    return [RecordedEvent(**row) for row in rows]
