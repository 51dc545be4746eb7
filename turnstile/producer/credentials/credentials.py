"""Who a request's credential belongs to, or why it is refused."""

import hmac
import time
from collections.abc import Callable, Sequence

from turnstile.access.api_key import read_key
from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database
from turnstile.producer.credentials.configured_keys import ConfiguredKeys
from turnstile.producer.credentials.jwts import Jwts, looks_like_jwt
from turnstile.producer.credentials.key_cache import KeyCache
from turnstile.producer.credentials.last_use import LastUse
from turnstile.producer.credentials.refusal import Reason, Refused
from turnstile.queries.api_keys import read_tokens
from turnstile.turn.identifiers import DEFAULT_TENANT

ANYBODY = Caller(DEFAULT_TENANT, Role.ADMIN, "none")
"""The caller of every request to an API that needs no key."""


class Credentials:
    """Checks the credentials of requests. One per process.

    `may_be_open`: without `configured` keys and `jwts` the API serves everybody, as the default tenant, until the first key is
    made.
    """

    def __init__(
        self,
        configured: Sequence[tuple[str, str]],
        database: Database,
        *,
        may_be_open: bool,
        jwts: Jwts | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configured = ConfiguredKeys(configured)
        self._stored = KeyCache(database, clock)
        self._tokens = KeyCache(database, clock, read=read_tokens)
        self._last_use = LastUse(database, clock)
        self._jwts = jwts
        self._may_be_open = may_be_open and not configured and jwts is None
        self._clock = clock

    async def are_needed(self) -> bool:
        """Whether every request needs a credential. Raises DatabaseUnavailableError if nobody can say now."""
        return not self._may_be_open or await self._stored.exist()

    async def check(self, key: str | None) -> Caller | Refused:
        """The caller with this key or JWT, or why it is refused.

        Raises DatabaseUnavailableError, IssuerUnavailableError or ProblemError (503) if nobody can say now.
        """
        if key is not None and (caller := self._configured.find(key)) is not None:
            return caller
        if not await self.are_needed():
            return ANYBODY
        if key is None:
            return Refused(Reason.MISSING)
        if self._jwts is not None and looks_like_jwt(key):
            return await self._jwts.check(key)
        presented = read_key(key)
        if presented is None:
            return Refused(Reason.UNKNOWN)
        known = await (self._tokens if presented.is_token else self._stored).find(presented.key_id)
        if known is None or not hmac.compare_digest(known.stored.digest, presented.digest):
            return Refused(Reason.UNKNOWN)
        stored = known.stored
        if stored.revoked:
            return Refused(Reason.REVOKED, stored.key_id)
        if known.expires_at is not None and self._clock() >= known.expires_at:
            return Refused(Reason.EXPIRED, stored.key_id)
        if not presented.is_token:
            self._last_use.note(stored.key_id)
        return Caller(stored.tenant_id, stored.role, stored.key_id, stored.limit)
