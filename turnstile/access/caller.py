"""Who makes a request. Pure."""

from dataclasses import dataclass

from turnstile.access.role import Role
from turnstile.access.verb import Verb


@dataclass(frozen=True, slots=True)
class SessionLimit:
    """What a browser token is for: nothing but these verbs, in this session."""

    session_id: str
    verbs: frozenset[Verb]


@dataclass(frozen=True, slots=True)
class Caller:
    """What a request's credential says about who sends it. Nothing else in a request names a tenant."""

    tenant_id: str
    role: Role
    key_id: str
    """Names the credential in logs, and is no secret: a stored key's id, `settings:N` for the Nth key of TURNSTILE_API_KEYS, a
    browser token's id, `jwt:` and a hash of the subject, or `none` where the API needs no key."""
    limit: SessionLimit | None = None
    """Of a browser token."""
