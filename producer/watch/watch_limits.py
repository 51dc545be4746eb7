"""Limits the requests that follow a turn or wait for its end: a number of places per process, never all for one tenant.

Such requests last long, and each occupies a connection. The limit leaves connections for submits, cancels and reads.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import LATER, Kind, ProblemError


class NoPlaceError(ProblemError):
    """429 if the tenant has used up its share of the places, 503 if no place is free."""


class WatchPlaces:
    """The places of a process, `most` in all.

    If several tenants have keys (`shared`), a tenant gets another place only while more places are free than it has. So a tenant
    has at most half of the places, and the next tenant always finds some.
    """

    def __init__(self, most: int, *, shared: bool) -> None:
        self._most = most
        self._shared = shared
        self._taken: Counter[str] = Counter()
        self._refused = Tally("api.watches_full")

    @contextmanager
    def take(self, tenant_id: str) -> Iterator[None]:
        """Occupies a place for the duration of the block. Raises NoPlaceError."""
        free = self._most - self._taken.total()
        own = self._taken[tenant_id]
        if free <= 0 or (self._shared and own >= free):
            self._refused.note(tenant_id=tenant_id, own=own, free=free)
            if self._shared and own:
                detail = f"this tenant has {own} streams and waits, and may have no more now: end one, or read the turn"
                raise NoPlaceError(Kind.TOO_MANY_STREAMS, detail, headers=LATER)
            detail = "no place is free for a stream or wait: try again, or read the turn"
            raise NoPlaceError(Kind.UNAVAILABLE, detail, headers=LATER)
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]
