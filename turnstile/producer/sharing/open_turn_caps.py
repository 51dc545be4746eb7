"""Caps on the open turns of a tenant and of a session: a submit beyond one is refused.

The open turns of each tenant and session that submits are counted once a second, and this process adds what it lets pass until
the next count. So a cap is kept to within what the other processes accept in a second. An exact cap would need a counter that
each submit and each settle of a tenant writes.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import LATER, Kind
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.queries.open_turns import count_of_sessions, count_of_tenants

MOST_COUNTED_AT_ONCE = 200

Counted = TypeVar("Counted", str, tuple[str, str])


class TooManyOpenTurnsError(NoPlaceError):
    """429 because the tenant, or the session, has as many open turns as it may have. Nothing was done."""


class _Cap(Generic[Counted]):
    """One cap. `count` reads the open turns of several tenants, or of several sessions, up to a number."""

    def __init__(self, most: int, count: Callable[[int, Sequence[Counted]], Awaitable[Sequence[int]]]) -> None:
        self.most = most
        self._batcher: Batcher[Counted, int] = Batcher(partial(count, most), limit=MOST_COUNTED_AT_ONCE)
        self._second = 0
        self._known: dict[Counted, int] = {}

    async def take(self, whose: Counted, now: float) -> bool:
        """Whether there may be one more; then it counts as open."""
        if int(now) != self._second:
            # All at once: no count is older than a second, and what has gone is forgotten.
            self._second, self._known = int(now), {}
        known = self._known
        if whose not in known:
            count = await self._batcher(whose)
            # Another submit may have counted, and added, meanwhile.
            known.setdefault(whose, count)
        if known[whose] >= self.most:
            return False
        known[whose] += 1
        return True


class OpenTurnCaps:
    """The caps of an API process. None: no cap."""

    def __init__(
        self,
        database: Database,
        *,
        per_tenant: int | None,
        per_session: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._of_tenant = None if per_tenant is None else _Cap(per_tenant, partial(count_of_tenants, database))
        self._of_session = None if per_session is None else _Cap(per_session, partial(count_of_sessions, database))
        self._clock = clock
        self._refused = Tally("api.overloaded")

    async def admit(self, tenant_id: str, session_id: str, *, lengthens_session: bool) -> None:
        """Counts one more open turn. Raises TooManyOpenTurnsError. While Postgres can't count, everything passes: the submit will
        show whether it can record.

        `lengthens_session`: whether the submit may come behind other turns of its session.
        """
        session, tenant = self._of_session, self._of_tenant
        try:
            if session and lengthens_session and not await session.take((tenant_id, session_id), self._clock()):
                raise self._refuse("session", tenant_id, session.most)
            if tenant and not await tenant.take(tenant_id, self._clock()):
                raise self._refuse("tenant", tenant_id, tenant.most)
        except DatabaseUnavailableError:
            return

    def _refuse(self, whose: str, tenant_id: str, most: int) -> TooManyOpenTurnsError:
        self._refused.note(what=f"open turns of one {whose}", tenant_id=tenant_id, own=most)
        detail = f"this {whose} has {most} open turns, which is its limit: wait for some of them to end"
        return TooManyOpenTurnsError(Kind.TOO_MANY_OPEN_TURNS, detail, headers=LATER)
