"""A session run: one worker's work on a locked session, from the lock's acquisition to its release. One turn, or a few."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from turnstile.config.settings import Settings
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.attempt.emitter import Emitter
from turnstile.worker.crash_isolation import Seat
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import LockedSession

if TYPE_CHECKING:
    # Imports OpenTelemetry.
    from turnstile.telemetry.attempt_span import AttemptSpan


@dataclass(slots=True)
class SessionRun:
    """The state of one run. Only its own task may use it, except for `kept`."""

    wake_up: WakeUp
    message: ReceivedMessage | None
    """None: recovery started the run, for a lost turn."""
    lock: LockedSession | None
    """None: Redis is away, and the claim decides alone; or the lock is released. If only `kept` has no lock, the claim decides
    alone, too, but this lock may be ours."""
    kept: HeartbeatEntry
    seat: Seat | None = None
    """Its seat in quarantine, if it has one, until the attempt for which it was taken is over."""
    emitter: Emitter | None = None
    span: "AttemptSpan | None" = None
    """The span of the attempt; None: no traces are exported."""
    started_at: float = field(default_factory=time.monotonic)
    turns: int = 0
    worked_since_look: bool = False
    deletion: "asyncio.Future[None] | None" = None
    stays: str | None = None
    """Why a wake-up of the session must be in the queue after this run, if it must: the row could not be made due."""
    left_behind: "asyncio.Future[Any] | None" = None
    """A handler of this run that ignored its cancellation and still runs."""
    exhausted: bool = False
    """The run must end: superseded, a handler that ignored its cancellation, or no slot for its turn."""

    def may_go_on(self, settings: Settings, now: float, *, wanted: bool) -> bool:
        """Whether it may claim another turn. `wanted`: the next wake-up would find no free slot.

        Turns are limited only if `wanted`, so that one long session does not starve others; with a free slot, ending the run
        would only cost a trip through the queue (ADR 0005). Time is always limited: a longer lock means that something is wrong
        (L6).
        """
        if self.exhausted or now - self.started_at >= settings.session_run_seconds:
            return False
        return not wanted or self.turns < settings.session_run_turns

    @property
    def most_crashes(self) -> int:
        return 0 if self.seat is None else self.seat.crashes

    def leave_quarantine(self) -> None:
        """Leaves its seat, if it has one; if its handler ignored its cancellation, when that handler ends."""
        seat, self.seat = self.seat, None
        if seat is not None:
            seat.leave(self.left_behind)


class SessionRuns:
    """The sessions that this worker runs now, each until the release of its lock begins.

    A wake-up for one of them needs no call to Redis: it sets `look_again` instead of the waiting mark beside the lock (ADR 0005).
    A session with many turns in the queue has a wake-up for each, and they all arrive during one run.
    """

    def __init__(self) -> None:
        self._by_session: dict[tuple[str, str], SessionRun] = {}

    def visit(self, wake_up: WakeUp) -> bool:
        """Whether the wake-up's session runs here. If so, that run claims once more before its release."""
        run = self._by_session.get((wake_up.tenant_id, wake_up.session_id))
        if run is not None:
            run.kept.look_again = True
        return run is not None

    def keep(self, run: SessionRun) -> None:
        """Adds the run, or adds it again after a release that was called off."""
        self._by_session[_session(run)] = run

    def drop(self, run: SessionRun) -> None:
        """Removes the run. Call it before the lock is released: a wake-up in between would mark a finished run."""
        # Without Redis a session may have two runs here; the claim decides between them, and this table has the later one.
        if self._by_session.get(_session(run)) is run:
            del self._by_session[_session(run)]


def _session(run: SessionRun) -> tuple[str, str]:
    return run.wake_up.tenant_id, run.wake_up.session_id
