"""Authentication: the tenant comes only from the bearer key. A tenant named in the request is never read."""

import hashlib
import hmac
from collections.abc import Sequence

from turnstile.turn.identifiers import DEFAULT_TENANT


class ApiKeys:
    """The configured keys, stored as digests, so that no attribute in a log or a debugger shows a key."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._tenants = [(tenant, _digest(key)) for tenant, key in pairs]

    def find_tenant(self, key: str | None) -> str | None:
        """The tenant of this key; None if the key is unknown. Takes the same time for every key."""
        if not self._tenants:
            # No keys are configured. The settings then refuse any address except loopback.
            return DEFAULT_TENANT
        if key is None:
            return None
        given = _digest(key)
        found: str | None = None
        for tenant, digest in self._tenants:
            # No early exit: the timing must not show the position in the list.
            if hmac.compare_digest(digest, given):
                found = tenant
        return found


def _digest(key: str) -> bytes:
    # surrogatepass: a header may contain any bytes.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
