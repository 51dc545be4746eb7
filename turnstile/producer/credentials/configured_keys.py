"""The keys of TURNSTILE_API_KEYS, for set-ups of one machine: they change with a restart, never expire, and may do everything."""

import hashlib
import hmac
from collections.abc import Sequence

from turnstile.access.caller import Caller
from turnstile.access.role import Role


class ConfiguredKeys:
    """The configured keys, stored as digests, so that no attribute in a log or a debugger shows a key."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._callers = [
            (_digest(key), Caller(tenant, Role.ADMIN, f"settings:{number}"))
            for number, (tenant, key) in enumerate(pairs, 1)
        ]

    def find(self, key: str) -> Caller | None:
        """Who has this key; None if it is unknown. Takes the same time for every key."""
        given = _digest(key)
        found: Caller | None = None
        for digest, caller in self._callers:
            # No early exit: the timing must not show the position in the list.
            if hmac.compare_digest(digest, given):
                found = caller
        return found


def _digest(key: str) -> bytes:
    # surrogatepass: a header may contain any bytes.
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
