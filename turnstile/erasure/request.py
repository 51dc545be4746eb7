"""Requests an erasure, in one transaction: its row, and of a session the halt and the cancel of what is open, of a tenant the end
of its keys."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from psycopg.rows import DictRow

from turnstile.audit.event import AuditEvent, AuditKind
from turnstile.audit.record import record
from turnstile.backends.postgres.database import Connection, Database
from turnstile.erasure.rows import BEGIN, EXTEND, EXTEND_PARTS, HALT, OPEN, READ, READ_OPEN, REVOKE_KEYS
from turnstile.statements.cancel import LOCK_NAMED_SESSION, CanceledSession, cancel_open
from turnstile.turn.cancel_reason import CancelReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """An erasure, as its row has it."""

    id: UUID
    tenant_id: str
    session_id: str | None
    """None: all sessions of the tenant."""
    part_of: UUID | None
    requested_by: str
    requested_at: datetime
    up_to_seq: int | None
    """The last turn of the session that is erased. None: the erasure has not begun."""
    reached: str | None
    """Of a tenant: the last session that became a part of it."""
    turns: int
    """Turns that were deleted so far."""
    finished_at: datetime | None

    @classmethod
    def of(cls, row: DictRow) -> Self:
        return cls(**{name: row[name] for name in cls.__dataclass_fields__})

    @property
    def terms(self) -> dict[str, Any]:
        """What the statements of `erasure.rows` ask for."""
        return {
            "id": self.id,
            "root": self.part_of or self.id,
            "tenant": self.tenant_id,
            "session": self.session_id,
            "requested_by": self.requested_by,
            "requested_at": self.requested_at,
            "up_to": self.up_to_seq,
            "reached": self.reached or "",
        }


async def request_erasure(
    database: Database, tenant_id: str, session_id: str | None, requested_by: str
) -> tuple[Erasure, CanceledSession] | None:
    """Begins the erasure of a session, or of all sessions of a tenant.

    One that is under way covers from now on what was submitted since it was asked for, too.

    Returns it with the turns that were cancelled; None if the tenant has no such session. From the commit on, no turn of the
    session begins, and the tenant's keys are revoked. Raises DatabaseUnavailableError (RowLockedError: another transaction has
    locked the session); may be repeated.
    """
    wanted = {"tenant": tenant_id, "session": session_id, "requested_by": requested_by}
    async with database.transaction(tenant_id) as connection:
        if session_id is not None:
            await connection.execute(LOCK_NAMED_SESSION, wanted)
        await connection.execute(EXTEND_PARTS, wanted)
        row = await (await connection.execute(EXTEND, wanted)).fetchone()
        if row is None:
            await connection.execute(OPEN, wanted)
            row = await (await connection.execute(READ_OPEN, wanted)).fetchone()
        if row is None:
            return None
        erasure = Erasure.of(row)
        canceled = CanceledSession((), ())
        if session_id is None:
            await _revoke_keys(connection, erasure)
        else:
            canceled = await begin(connection, erasure, session_id)
    return erasure, canceled


async def _revoke_keys(connection: Connection, erasure: Erasure) -> None:
    """Browser tokens end with the key that has asked for them."""
    revoked = await (await connection.execute(REVOKE_KEYS, erasure.terms)).fetchall()
    for row in revoked:
        event = AuditEvent(
            kind=AuditKind.KEY_REVOKED,
            actor=erasure.requested_by,
            subject=f"key {row['key_id']}",
            tenant_id=erasure.tenant_id,
            reason="its tenant is erased",
        )
        await record(connection, event)


async def begin(connection: Connection, erasure: Erasure, session_id: str) -> CanceledSession:
    """Halts the session and cancels what is open. The caller's transaction has locked the session."""
    await connection.execute(HALT, erasure.terms)
    canceled, asked = await cancel_open(
        connection, erasure.tenant_id, session_id, CancelReason.OPERATOR, scheduled=True
    )
    await connection.execute(BEGIN, erasure.terms)
    return CanceledSession(canceled, asked)


async def read_erasure(database: Database, erasure_id: UUID) -> Erasure | None:
    """The erasure as it is now. Raises DatabaseUnavailableError."""
    rows = await database.fetch(READ, {"id": erasure_id})
    return Erasure.of(rows[0]) if rows else None
