"""Why a credential is refused."""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a credential is refused. Only the log and the audit tell: to a client, one refusal is like another."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    REVOKED = "revoked"
    EXPIRED = "expired"
    NO_TENANT = "no-tenant"
    """A valid JWT without the claim that names the tenant."""
    NO_ROLE = "no-role"
    """A valid JWT without a claim that names a role."""


@dataclass(frozen=True, slots=True)
class Refused:
    reason: Reason
    key_id: str | None = None
    """Of a key that was valid once."""
