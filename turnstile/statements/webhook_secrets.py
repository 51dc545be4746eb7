"""Which of a tenant's webhook secrets sign: their numbers, never the secrets (`webhooks.signature.derive_secret`).

A tenant without rows has the first secret. A rotation adds the next number, and gives the one before an end. Every try of a
webhook reads the numbers (`statements.webhooks.TAKE`), so a rotation needs no restart and no webhook is lost.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from psycopg.rows import DictRow

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import change_and_record
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.sql_terms import by_key

SIGNING: LiteralString = f"""
coalesce((SELECT array_agg(s.number ORDER BY s.number DESC) FROM webhook_secrets s
           WHERE {by_key("s.tenant_id", "w.tenant_id")} AND (s.signs_until IS NULL OR s.signs_until > now())), '{{1}}')
"""
"""The numbers of the secrets that sign the webhook `w`, the newest first. The newest of a tenant has no end."""

READ: LiteralString = """
SELECT tenant_id, number, signs_until, coalesce(signs_until > now(), true) AS signs
  FROM webhook_secrets WHERE %(tenant)s::text IS NULL OR tenant_id = %(tenant)s::text ORDER BY tenant_id, number
"""

# Of two rotations at a time the second finds that its number is taken.
ROTATE: LiteralString = """
WITH newest AS (
    SELECT coalesce(max(number), 1) AS number FROM webhook_secrets WHERE tenant_id = %(tenant)s
), replaced AS (
    INSERT INTO webhook_secrets AS s (tenant_id, number, signs_until)
    SELECT %(tenant)s, number, now() + make_interval(secs => %(overlap)s) FROM newest
        ON CONFLICT (tenant_id, number) DO UPDATE SET signs_until = excluded.signs_until WHERE s.signs_until IS NULL
)
INSERT INTO webhook_secrets (tenant_id, number) SELECT %(tenant)s, number + 1 FROM newest
    ON CONFLICT DO NOTHING RETURNING number
"""

REVOKE: LiteralString = """
UPDATE webhook_secrets SET signs_until = now() WHERE tenant_id = %(tenant)s AND number = %(number)s AND signs_until > now()
RETURNING number
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretNumber:
    """One of a tenant's secrets."""

    tenant_id: str
    number: int
    signs_until: datetime | None
    """None: it is the newest, and has no end."""
    signs: bool


async def read_secret_numbers(database: Database, tenant_id: str | None = None) -> list[SecretNumber]:
    """The secrets of this tenant, or of every tenant that has had a rotation, oldest first. Raises DatabaseUnavailableError."""
    found = [SecretNumber(**row) for row in await database.fetch(READ, {"tenant": tenant_id})]
    if not found and tenant_id is not None:
        return [SecretNumber(tenant_id=tenant_id, number=1, signs_until=None, signs=True)]
    return found


async def rotate_secret(database: Database, tenant_id: str, *, overlap_seconds: float, by: str) -> int | None:
    """Begins to sign with the tenant's next secret and returns its number; the one before signs for `overlap_seconds` more.

    None if another rotation came first, and nothing was changed.
    """
    given = {"tenant": tenant_id, "overlap": overlap_seconds}
    return await _change(database, ROTATE, given, AuditKind.WEBHOOK_SECRET_ROTATED, by)


async def revoke_secret(database: Database, tenant_id: str, number: int, *, by: str) -> bool:
    """Ends at once a secret that a rotation has replaced. False if it is the newest, or signs no more."""
    given = {"tenant": tenant_id, "number": number}
    return await _change(database, REVOKE, given, AuditKind.WEBHOOK_SECRET_REVOKED, by) is not None


async def _change(
    database: Database, statement: LiteralString, given: dict[str, object], kind: AuditKind, by: str
) -> int | None:
    def event(row: DictRow) -> AuditEvent:
        subject = f"webhook secret {row['number']}"
        return AuditEvent(kind=kind, actor=by, subject=subject, tenant_id=str(given["tenant"]))

    changed = await change_and_record(database, statement, given, event)
    return None if changed is None else int(changed["number"])
