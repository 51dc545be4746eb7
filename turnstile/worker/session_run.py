"""A session run: one worker's work on a locked session, from the lock's acquisition to its release. One turn, or a few.

                        begin                    handler_ended
    locked -> looking ----------> handler runs ----------------> settling
               ^  ^                                                |  |
               |  +------- the settle claimed the next turn -------+  |
               |                                                      | nothing due, or may_go_on is false
               |  must_look_again                                     v
               +-------------------------------------------------- unlocking -> released

`supersede` leads from any of them straight to unlocking: the run is exhausted and claims no more.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from turnstile.config.settings import Settings
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.attempt.emitter import Emitter
from turnstile.worker.crash_isolation import Seat
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import LockedSession, Release

if TYPE_CHECKING:
    # Imports OpenTelemetry.
    from turnstile.telemetry.attempt_span import AttemptSpan


@dataclass(slots=True)
class SessionRun:
    """The state of one run. Only its own task may use it, except for `entry`, which the heartbeat reads."""

    wake_up: WakeUp
    message: ReceivedMessage | None
    """None: takeover started the run, for a lost turn."""
    lock: LockedSession | None
    """None: Redis is away, and the claim decides alone; or the lock is released. If only `entry` has no lock, the claim decides
    alone, too, but this lock may be ours."""
    entry: HeartbeatEntry
    seat: Seat | None = None
    """Its seat in quarantine, if it has one, until the attempt for which it was taken is over."""
    emitter: Emitter | None = None
    span: "AttemptSpan | None" = None
    """The span of the attempt; None: no traces are exported."""
    started_at: float = field(default_factory=time.monotonic)
    turns: int = 0
    worked_since_look: bool = False
    deletion: "asyncio.Future[None] | None" = None
    appended: "asyncio.Future[Any] | None" = None
    """The last answered turn on its way into the session's history."""
    stays: str | None = None
    """Why a wake-up of the session must be in the queue after this run, if it must: the row could not be made due."""
    left_behind: "asyncio.Future[Any] | None" = None
    """A handler of this run that ignored its cancellation and still runs."""
    exhausted: bool = False
    """The run must end: superseded, a handler that ignored its cancellation, or no slot for its turn."""

    @property
    def emitted(self) -> str | None:
        """The text that the attempt has emitted."""
        return None if self.emitter is None else self.emitter.text

    @property
    def most_crashes(self) -> int:
        return 0 if self.seat is None else self.seat.crashes

    def may_go_on(self, settings: Settings, now: float, *, wanted: bool) -> bool:
        """Whether it may claim another turn. `wanted`: the next wake-up would find no free slot.

        Turns are limited only if `wanted`, so that one long session does not starve others; with a free slot, ending the run
        would only cost a trip through the queue (ADR 0005). Time is always limited: a longer lock means that something is wrong.
        """
        if self.exhausted or now - self.started_at >= settings.session_run_seconds:
            return False
        return not wanted or self.turns < settings.session_run_turns

    def begin(self, turn: ClaimedTurn, stop: Callable[..., None], renew_until: float) -> None:
        """An attempt begins: its lease is kept from now until `renew_until` (monotonic)."""
        self.turns += 1
        self.worked_since_look = True
        self.entry.begin(turn, stop, renew_until)

    def handler_ended(self, left_behind: "asyncio.Future[Any] | None", *, may_claim: bool) -> None:
        """`left_behind`: the handler, if it ignored its cancellation. The lease is kept until the settle."""
        self.entry.handler_ended()
        self.left_behind = left_behind
        self.exhausted |= left_behind is not None or not may_claim
        self.leave_quarantine()

    def supersede(self) -> None:
        """Another claim has the turn: its lease is kept no longer, and the run claims no more."""
        self.entry.end()
        self.exhausted = True

    def must_look_again(self, released: Release) -> bool:
        """Whether the session must be looked at once more before the run ends. Asked once for each release.

        The waiting mark may be missing: if there was no lock, if the lock was lost for a while, or if Redis's response
        was lost. Then a turn that was committed during the last settle has no other wake-up: its own found the session
        RUNNING. So after work the session is looked at once more. Only once: while Redis is away every response is
        lost, and the relay sends the wake-up again.
        """
        again = self.entry.look_again or released is Release.LOOK_AGAIN
        if released in (Release.LOST, Release.UNKNOWN):
            again = again or self.worked_since_look
        self.worked_since_look = self.entry.look_again = False
        return again

    def leave_quarantine(self) -> None:
        """Leaves its seat, if it has one; if its handler ignored its cancellation, when that handler ends."""
        seat, self.seat = self.seat, None
        if seat is not None:
            seat.leave(self.left_behind)


class SessionRuns:
    """The sessions that this worker runs now, each until the release of its lock begins.

    A wake-up for one of them needs no call to Redis: it sets `look_again` instead of the waiting mark next to the lock
    (ADR 0005). A session with many turns in the queue has a wake-up for each, and they all arrive during one run.
    """

    def __init__(self) -> None:
        self._by_session: dict[tuple[str, str], SessionRun] = {}

    def visit(self, wake_up: WakeUp) -> bool:
        """Whether the wake-up's session runs here. If so, that run claims once more before its release."""
        run = self._by_session.get((wake_up.tenant_id, wake_up.session_id))
        if run is not None:
            run.entry.look_again = True
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
