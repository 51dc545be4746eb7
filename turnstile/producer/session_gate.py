"""Limits the calls that may wait for a locked session: few at a time, one per session, each for a limited time.

Cancels, submits with an `on_busy` policy, and submits to a session that another transaction has locked go through the gate. All
sessions that are known to be locked share one lane and its database connection, so calls for other sessions continue. The tenants
take turns, and the calls that wait are limited by tenant and by session.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from weakref import WeakValueDictionary

from turnstile.errors import RowLockedError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import LATER, Kind
from turnstile.producer.sharing.fair_lanes import FairLanes
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError
from turnstile.producer.sharing.seen_tenants import SeenTenants
from turnstile.telemetry.own_log import log

LANES = 4
LOCKED_LANES = 1
"""The lane of a gate for sessions that are known to be locked, in addition to its other lanes."""
LOCKED_SECONDS = 30.0
"""How long a session counts as locked after the last lock that a call met. Then one call tries the other lanes: otherwise a
session that is free again could wait behind locked ones for as long as those are locked."""
SUSPECT_SECONDS = 600.0
"""How long a session stays a suspect without another lock. Longer than clients wait between two tries."""
PATIENCE_SECONDS = 5.0
"""Longest wait of a call. Fifty concurrent submits to one session take one or two seconds; later, clients give up."""
MOST_CALLS = 2000
"""Calls at a gate, of all sessions. Each may have a body in memory, also after its client has gone."""
MOST_OF_SESSION = 500
"""Calls of one session at a gate: about as many as can pass within the patience of the last one."""

Session = tuple[str, str]
"""Tenant and session."""


class _Line:
    """The calls of one session at the gate."""

    def __init__(self) -> None:
        self.alone = asyncio.Lock()
        self._calls = 0

    @contextmanager
    def take(self, tenant_id: str, refused: Tally) -> Iterator[None]:
        """Counts one call for the duration of the block. Raises NoPlaceError, noted in `refused`."""
        if self._calls >= MOST_OF_SESSION:
            refused.note(what="requests for one session", tenant_id=tenant_id, own=self._calls)
            detail = f"{self._calls} requests already wait for this session; send fewer at a time"
            raise NoPlaceError(Kind.TOO_MANY_REQUESTS, detail, headers=LATER)
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1


class SessionGate:
    """Admits `lanes` calls at a time, one more for sessions that are known to be locked, and one per session.

    A call that has waited for `patience_seconds` is refused. Without this limit, a call could take effect long after its client
    has given up, and interrupt, cancel or merge into later turns. `shared`: whether several tenants use the process.
    """

    def __init__(
        self, lanes: int = LANES, patience_seconds: float = PATIENCE_SECONDS, *, shared: bool | SeenTenants = True
    ) -> None:
        self._lanes = FairLanes(lanes)
        self._locked_lane = FairLanes(LOCKED_LANES)
        self.patience_seconds = patience_seconds
        self._places = FairPlaces(MOST_CALLS, "requests queued for busy sessions", shared=shared)
        self._refused = Tally("api.overloaded")
        # An entry lives as long as a call of the session runs or waits.
        self._sessions: WeakValueDictionary[Session, _Line] = WeakValueDictionary()
        self.suspects: dict[Session, float] = {}
        """Sessions that may be locked, with the monotonic time of that lock: no call has succeeded since one met it, perhaps
        that of another session in its batch."""
        # Apart from the suspects: a healthy session of such a batch must not wait for the locked ones.
        self._locked_at: dict[Session, float] = {}

    @asynccontextmanager
    async def enter(self, session: Session) -> AsyncIterator[None]:
        """The block runs admitted.

        Raises NoPlaceError or DatabaseUnavailableError, with nothing done: at once if too many wait, otherwise after
        `patience_seconds`.
        """
        line = self._sessions.setdefault(session, _Line())
        with self._places.take(session[0]) as own, line.take(session[0], self._refused):
            async with AsyncExitStack() as inside:
                before = self._answered
                try:
                    async with asyncio.timeout(self.patience_seconds):
                        await inside.enter_async_context(line.alone)
                        lanes = self._locked_lane if self._is_locked(session) else self._lanes
                        await inside.enter_async_context(lanes.enter(session[0]))
                except TimeoutError:
                    # The next call of the session need not wait for the judgement.
                    await inside.aclose()
                    raise await self._refuse(session, own, before) from None
                try:
                    yield
                except RowLockedError:
                    self.suspect([session])
                    self._note_lock(session)
                    log.warning("api.session_locked", tenant_id=session[0], session_id=session[1])
                    raise
                self.suspects.pop(session, None)
                self._locked_at.pop(session, None)

    def suspect(self, sessions: Iterable[Session]) -> None:
        """Notes that calls of these sessions met a lock."""
        now = time.monotonic()
        self.suspects = {one: at for one, at in self.suspects.items() if now - at < SUSPECT_SECONDS}
        self.suspects.update(dict.fromkeys(sessions, now))

    @property
    def _answered(self) -> int:
        return self._lanes.answered + self._locked_lane.answered

    async def _refuse(self, session: Session, own: int, before: int) -> Exception:
        """When the call began to wait, its tenant had `own` others here, and the database had responded to `before`."""
        if self._is_locked(session):
            return RowLockedError(
                "another transaction has locked this session, and other requests wait for it; try again later"
            )
        return await self._places.refuse_wait(session[0], own, answered=lambda: self._answered > before)

    def _is_locked(self, session: Session) -> bool:
        return time.monotonic() - self._locked_at.get(session, -math.inf) < LOCKED_SECONDS

    def _note_lock(self, session: Session) -> None:
        self._locked_at[session] = time.monotonic()
        self._locked_at = {one: at for one, at in self._locked_at.items() if self._is_locked(one)}
