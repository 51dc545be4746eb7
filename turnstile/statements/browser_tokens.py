"""Browser tokens: what a page shows in place of a key. They are for one session, and for a quarter of an hour."""

from collections.abc import Iterable
from datetime import datetime
from typing import LiteralString

from turnstile.access.api_key import ApiKey
from turnstile.access.verb import Verb
from turnstile.backends.postgres.database import Database
from turnstile.statements.delete_old_rows import AT_ONCE, FORGET

LIFETIME_SECONDS = 900.0

MAKE: LiteralString = """
INSERT INTO browser_tokens (token_id, digest, tenant_id, session_id, verbs, made_by, expires_at)
VALUES (%(token_id)s, %(digest)s, %(tenant_id)s, %(session_id)s, %(verbs)s::text[], %(made_by)s,
        clock_timestamp() + %(seconds)s::float8 * interval '1 second')
RETURNING expires_at
"""

FORGET_TOKENS: LiteralString = FORGET.format(table="browser_tokens", over="expires_at < now()", by="expires_at")


async def make_browser_token(
    database: Database, token: ApiKey, *, tenant_id: str, session_id: str, verbs: Iterable[Verb], made_by: str
) -> datetime:
    """Stores a new token; when it expires. Raises DatabaseUnavailableError."""
    given = {
        "token_id": token.key_id,
        "digest": token.digest,
        "tenant_id": tenant_id,
        "session_id": session_id,
        "verbs": [verb.value for verb in verbs],
        "made_by": made_by,
        "seconds": LIFETIME_SECONDS,
    }
    [row] = await database.fetch(MAKE, given)
    expires_at: datetime = row["expires_at"]
    return expires_at


async def forget_tokens(database: Database) -> bool:
    """Deletes tokens that have expired. True if there may be more."""
    [row] = await database.fetch(FORGET_TOKENS, {})
    return bool(row["gone"] == AT_ONCE)
