"""Writes to the API keys: operators make, rotate and revoke them, and the API notes their last use."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

from psycopg import AsyncConnection

from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database

_SHOWN: LiteralString = """key_id, tenant_id, role, note, created_by, created_at, expires_at, last_used_at, replaced_by,
          revoked_at, revoked_by"""

CREATE: LiteralString = f"""
INSERT INTO api_keys (key_id, digest, tenant_id, role, note, created_by, expires_at)
VALUES (%(key_id)s, %(digest)s, %(tenant_id)s, %(role)s, %(note)s, %(by)s,
        clock_timestamp() + %(seconds)s::float8 * interval '1 second')
RETURNING {_SHOWN}
"""

# One statement: a client never has a new key without the old one's end being set, nor an old one that ends without a new one.
ROTATE: LiteralString = f"""
WITH present AS (
    SELECT * FROM api_keys
     WHERE key_id = %(old)s AND revoked_at IS NULL AND replaced_by IS NULL
       AND coalesce(expires_at > clock_timestamp(), true)
       FOR UPDATE
), old AS (
    UPDATE api_keys k
       SET replaced_by = %(key_id)s,
           expires_at = least(k.expires_at, clock_timestamp() + %(overlap)s::float8 * interval '1 second')
      FROM present WHERE k.key_id = present.key_id
)
INSERT INTO api_keys (key_id, digest, tenant_id, role, note, created_by, expires_at)
SELECT %(key_id)s::text, %(digest)s::bytea, tenant_id, role, note, %(by)s::text,
       clock_timestamp() + coalesce(%(seconds)s::float8 * interval '1 second', expires_at - created_at)
  FROM present
RETURNING {_SHOWN}
"""

REVOKE: LiteralString = f"""
UPDATE api_keys SET revoked_at = clock_timestamp(), revoked_by = %(by)s
 WHERE key_id = %(key_id)s AND revoked_at IS NULL
RETURNING {_SHOWN}
"""

# Each API process notes each key once a minute. What another process has just noted, or notes now, is left alone.
NOTE_USE: LiteralString = """
WITH due AS (
    SELECT key_id FROM api_keys
     WHERE key_id = ANY(%(key_ids)s::text[]) AND coalesce(last_used_at < clock_timestamp() - interval '50 seconds', true)
     ORDER BY key_id FOR UPDATE SKIP LOCKED
)
UPDATE api_keys k SET last_used_at = clock_timestamp() FROM due WHERE k.key_id = due.key_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key as operators see it: all of its row but the digest."""

    key_id: str
    tenant_id: str
    role: Role
    note: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    replaced_by: str | None
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    key_id: str
    digest: bytes
    by: str
    """The operator that makes it."""
    lives_seconds: float | None
    """Until it expires. None: never; of a rotation, as long as the old key was made for."""


async def create_key(
    connection: AsyncConnection[Any], new: NewKey, *, tenant_id: str, role: Role, note: str | None
) -> KeyRecord:
    """Stores a new key. Raises psycopg.Error."""
    given = {**_parameters(new), "tenant_id": tenant_id, "role": role.value, "note": note}
    (row,) = await (await connection.execute(CREATE, given)).fetchall()
    return _record(row)


async def rotate_key(
    connection: AsyncConnection[Any], old_key_id: str, new: NewKey, *, overlap_seconds: float
) -> KeyRecord | None:
    """Puts a new key in the place of an old one, which stays valid for the overlap.

    None, with nothing changed, if the old one does not exist, or is expired, revoked or replaced already.
    """
    given = {**_parameters(new), "old": old_key_id, "overlap": overlap_seconds}
    row = await (await connection.execute(ROTATE, given)).fetchone()
    return None if row is None else _record(row)


async def revoke_key(connection: AsyncConnection[Any], key_id: str, *, by: str) -> KeyRecord | None:
    """Revokes the key. None if it does not exist, or is revoked already."""
    row = await (await connection.execute(REVOKE, {"key_id": key_id, "by": by})).fetchone()
    return None if row is None else _record(row)


async def note_use(database: Database, key_ids: Sequence[str]) -> None:
    """Notes that these keys are used now."""
    await database.fetch(NOTE_USE, {"key_ids": list(key_ids)})


def _parameters(new: NewKey) -> dict[str, object]:
    return {"key_id": new.key_id, "digest": new.digest, "by": new.by, "seconds": new.lives_seconds}


def _record(row: dict[str, object]) -> KeyRecord:
    return KeyRecord(**{**row, "role": Role(str(row["role"]))})  # type: ignore[arg-type]
