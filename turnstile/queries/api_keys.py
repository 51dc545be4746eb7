"""Reads of the API keys: for the API, which checks a client's key, and for operators."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database
from turnstile.statements.api_keys import KeyRecord

# The time left is by the server's clock, which no API process needs to agree with.
READ: LiteralString = """
SELECT key_id, digest, tenant_id, role, revoked_at IS NOT NULL AS revoked,
       extract(epoch FROM expires_at - clock_timestamp())::float8 AS seconds_left
  FROM api_keys WHERE key_id = ANY(%(key_ids)s::text[])
"""

EXISTS: LiteralString = "SELECT EXISTS (SELECT FROM api_keys) AS found"

LIST: LiteralString = """
SELECT key_id, tenant_id, role, note, created_by, created_at, expires_at, last_used_at, replaced_by, revoked_at, revoked_by,
       CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= clock_timestamp() THEN 'expired'
            WHEN replaced_by IS NOT NULL THEN 'replaced' ELSE 'valid' END AS state
  FROM api_keys
 WHERE coalesce(tenant_id = %(tenant_id)s::text, true) AND coalesce(key_id = %(key_id)s::text, true)
 ORDER BY created_at DESC, key_id LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """What the API needs of a key's row."""

    key_id: str
    digest: bytes = field(repr=False)
    tenant_id: str
    role: Role
    revoked: bool
    seconds_left: float | None
    """Until it expires, at the time of the read. None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedKey(KeyRecord):
    state: str
    """`valid`, `replaced` (valid until it expires), `expired` or `revoked`."""


async def read_keys(database: Database, key_ids: Sequence[str]) -> dict[str, StoredKey]:
    """The keys with these ids that exist. Raises DatabaseUnavailableError."""
    rows = await database.fetch(READ, {"key_ids": list(key_ids)})
    return {row["key_id"]: StoredKey(**{**row, "role": Role(row["role"])}) for row in rows}


async def any_key_exists(database: Database) -> bool:
    """Whether a key was ever made. Raises DatabaseUnavailableError."""
    (row,) = await database.fetch(EXISTS, {})
    return bool(row["found"])


async def list_keys(
    database: Database, *, limit: int, tenant_id: str | None = None, key_id: str | None = None
) -> list[ListedKey]:
    """The newest keys, of one tenant or of all. Raises DatabaseUnavailableError."""
    rows = await database.fetch(LIST, {"limit": limit, "tenant_id": tenant_id, "key_id": key_id})
    return [ListedKey(**{**row, "role": Role(row["role"])}) for row in rows]
