"""Limits how much of something in a process is under way at a time, never all of it for one tenant.

It is used for what a client can make long or many: requests in progress, submits, calls that wait for a session or a connection,
event streams. Who gets a place next does not matter here, because nobody waits for one: `producer.sharing.fair_lanes` has lines.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from turnstile.backends.late_answer import is_answered
from turnstile.errors import ConnectionsBusyError, DatabaseUnavailableError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import LATER, Kind, ProblemError
from turnstile.producer.sharing.seen_tenants import SeenTenants

TIMES_FREE = 3
"""A tenant may have this many places for each place that stays free, as it may have slots of a worker (ADR 0015). One tenant has
three quarters of the places at most, two that take turns have three sevenths each."""


class NoPlaceError(ProblemError):
    """429 if the tenant has its share of the places, 503 if no place is free. Nothing was done."""


class FairPlaces:
    """`most` places for something, which `what` names in the plural.

    If several tenants share the process (`shared`), a tenant gets another place only if it then has at most TIMES_FREE
    times as many as stay free. So the next tenant finds some. A tenant that has none gets the last one, too.
    """

    def __init__(
        self, most: int, what: str, *, shared: bool | SeenTenants, kind: Kind = Kind.TOO_MANY_REQUESTS
    ) -> None:
        self._free = most
        self._what = what
        self._shared = shared
        self._kind = kind
        self._taken: dict[str, int] = {}
        self._refused = Tally("api.overloaded")

    @contextmanager
    def take(self, tenant_id: str) -> Iterator[int]:
        """Occupies a place for the duration of the block. Yields how many the tenant had before.

        Raises NoPlaceError, also if the block gets no connection to Postgres because other calls have all of them.
        """
        own = self._taken.get(tenant_id, 0)
        if self._free <= 0 or (self._shared and own and own + 1 > TIMES_FREE * (self._free - 1)):
            raise self._refuse(tenant_id, own)
        self._free -= 1
        self._taken[tenant_id] = own + 1
        try:
            yield own
        except ConnectionsBusyError:
            raise self._refuse(tenant_id, own) from None
        finally:
            self._free += 1
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]

    async def refuse_wait(
        self, tenant_id: str, own: int, *, answered: Callable[[], bool]
    ) -> NoPlaceError | DatabaseUnavailableError:
        """The error for a call that had a place and has waited too long for what follows.

        `own`: the places that its tenant had when it came. `answered`: whether the database has answered another call meanwhile.
        """
        if await is_answered(answered):
            return self._refuse(tenant_id, own)
        return DatabaseUnavailableError("no call before this one got a response")

    def _refuse(self, tenant_id: str, own: int) -> NoPlaceError:
        # Where the tenant has places, these are the reason.
        self._refused.note(what=self._what, tenant_id=tenant_id, own=own, free=self._free)
        if self._shared and own:
            detail = f"this tenant has {own} {self._what}, which is its limit now: wait for some of them to end"
            return NoPlaceError(self._kind, detail, headers=LATER)
        return NoPlaceError(
            Kind.UNAVAILABLE, f"too many {self._what}; try again after `Retry-After` seconds", headers=LATER
        )
