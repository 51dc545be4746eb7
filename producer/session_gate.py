"""Limits the calls that may wait for a locked session: few at a time, one per session, each for a limited time.

Cancels, submits with an `on_busy` policy, and submits to a session that another transaction has locked go through the gate. All
sessions that are known to be locked share one lane and its database connection, so calls for other sessions continue.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.telemetry.own_log import log

LANES = 4
LOCKED_LANES = 1
"""The lane of a gate for sessions that are known to be locked, beside its other lanes."""
LOCKED_SECONDS = 30.0
"""How long a session counts as locked after the last lock that a call met. Then one call tries the other lanes: otherwise a
session that is free again could wait behind locked ones for as long as those are locked."""
SUSPECT_SECONDS = 600.0
"""How long a session stays a suspect without another lock. Longer than clients wait between two tries."""
PATIENCE_SECONDS = 5.0
"""Longest wait of a call. Fifty concurrent submits to one session take one or two seconds; later, clients give up."""


Session = tuple[str, str]
"""Tenant and session."""


class SessionGate:
    """Admits `lanes` calls at a time, one more for sessions that are known to be locked, and one per session.

    A call that has waited for `patience_seconds` is refused. Without this limit, a call could take effect long after its client
    has given up, and interrupt, cancel or merge into later turns.
    """

    def __init__(self, lanes: int = LANES, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._lanes = asyncio.Semaphore(lanes)
        self._locked_lane = asyncio.Semaphore(LOCKED_LANES)
        self._patience_seconds = patience_seconds
        # An entry lives as long as a call of the session runs or waits.
        self._sessions: WeakValueDictionary[Session, asyncio.Lock] = WeakValueDictionary()
        self.suspects: dict[Session, float] = {}
        """Sessions that may be locked, with the monotonic time of that lock: no call has succeeded since one met it, perhaps
        that of another session in its batch."""
        # Apart from the suspects: a healthy session of such a batch must not wait for the locked ones.
        self._locked_at: dict[Session, float] = {}

    @asynccontextmanager
    async def enter(self, session: Session) -> AsyncIterator[None]:
        """The block runs admitted. Raises DatabaseUnavailableError, with nothing done, after `patience_seconds`."""
        alone = self._sessions.setdefault(session, asyncio.Lock())
        async with AsyncExitStack() as inside:
            try:
                async with asyncio.timeout(self._patience_seconds):
                    await inside.enter_async_context(alone)
                    lane = self._locked_lane if self._is_locked(session) else self._lanes
                    await inside.enter_async_context(lane)
            except TimeoutError:
                raise DatabaseUnavailableError("too many requests wait for their sessions") from None
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

    def _is_locked(self, session: Session) -> bool:
        return time.monotonic() - self._locked_at.get(session, -math.inf) < LOCKED_SECONDS

    def _note_lock(self, session: Session) -> None:
        self._locked_at[session] = time.monotonic()
        self._locked_at = {one: at for one, at in self._locked_at.items() if self._is_locked(one)}
