"""Who calls: the tenant comes from the bearer key and from nothing else (a tenant named in a request is never read)."""

import hashlib
import hmac
from collections.abc import Sequence

from turnstile.turn.message import DEFAULT_TENANT


class ApiKeys:
    """The configured keys, as digests: the keys themselves are in no attribute that a log or a debugger might show."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._tenants = [(tenant, _digest(key)) for tenant, key in pairs]

    def find_tenant(self, key: str | None) -> str | None:
        """The tenant whose key this is; None if it is nobody's. Takes the same time whichever it is."""
        if not self._tenants:
            # No keys are configured. The settings then refuse any address but the loopback.
            return DEFAULT_TENANT
        if key is None:
            return None
        given = _digest(key)
        found: str | None = None
        for tenant, digest in self._tenants:
            # No early end: the place in the list must not show in the time.
            if hmac.compare_digest(digest, given):
                found = tenant
        return found


def _digest(key: str) -> bytes:
    # surrogatepass: a key is whatever bytes a header held.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
