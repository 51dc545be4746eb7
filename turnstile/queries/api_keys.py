"""Reads of the API keys and browser tokens: for the API, which checks a client's credential, and for operators."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString

from turnstile.access.caller import SessionLimit
from turnstile.access.role import Role
from turnstile.access.verb import Verb
from turnstile.backends.postgres.database import Database
from turnstile.statements.api_keys import KeyRecord

# The time left is by the server's clock, which no API process needs to agree with.
READ: LiteralString = """
SELECT key_id, digest, tenant_id, role, revoked_at IS NOT NULL AS revoked,
       extract(epoch FROM expires_at - clock_timestamp())::float8 AS seconds_left
  FROM api_keys WHERE key_id = ANY(%(key_ids)s::text[])
"""

# A token ends with the key that has asked for it, also if that key was deleted with its tenant.
READ_TOKENS: LiteralString = """
SELECT t.token_id AS key_id, t.digest, t.tenant_id, t.session_id, t.verbs,
       k.revoked_at IS NOT NULL OR k.key_id IS NULL AND starts_with(t.made_by, 'tsk_') AS revoked,
       extract(epoch FROM least(t.expires_at, k.expires_at) - clock_timestamp())::float8 AS seconds_left
  FROM browser_tokens t LEFT JOIN api_keys k ON k.key_id = t.made_by WHERE t.token_id = ANY(%(key_ids)s::text[])
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
    """What the API needs of the row of a key or a token."""

    key_id: str
    digest: bytes = field(repr=False)
    tenant_id: str
    role: Role
    revoked: bool
    seconds_left: float | None
    """Until it expires, at the time of the read. None: never."""
    limit: SessionLimit | None = None
    """Of a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedKey(KeyRecord):
    state: str
    """`valid`, `replaced` (valid until it expires), `expired` or `revoked`."""


async def read_keys(database: Database, key_ids: Sequence[str]) -> dict[str, StoredKey]:
    """The keys with these ids that exist. Raises DatabaseUnavailableError."""
    rows = await database.fetch(READ, {"key_ids": list(key_ids)})
    return {row["key_id"]: StoredKey(**{**row, "role": Role(row["role"])}) for row in rows}


async def read_tokens(database: Database, token_ids: Sequence[str]) -> dict[str, StoredKey]:
    """The browser tokens with these ids that exist. Raises DatabaseUnavailableError."""
    rows = await database.fetch(READ_TOKENS, {"key_ids": list(token_ids)})
    return {row["key_id"]: _token(row) for row in rows}


def _token(row: dict[str, Any]) -> StoredKey:
    limit = SessionLimit(row.pop("session_id"), frozenset(Verb(verb) for verb in row.pop("verbs")))
    highest = max((verb.role for verb in limit.verbs), key=tuple(Role).index)
    return StoredKey(**row, role=highest, limit=limit)


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
