"""A hold: what one worker does from taking a session's lock to giving it back. One turn, or a few."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, assert_never

from turnstile.config.settings import Settings
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.attempt.emitter import Emitter
from turnstile.worker.kept_alive import Kept
from turnstile.worker.quarantine import Seat
from turnstile.worker.session_lock import Guard, LockedSession


@dataclass(slots=True)
class Hold:
    """The state of one hold; touched by its own task only."""

    wake_up: WakeUp
    message: ReceivedMessage | None
    """None: recovery has begun it, for a lost turn."""
    lock: LockedSession | None
    """None: Redis is away, and the claim decides alone. It does so too where `kept` has no lock: this one may be ours."""
    kept: Kept
    seat: Seat | None = None
    """Its place in quarantine, until the run for which it was taken is over."""
    emitter: Emitter | None = None
    """The voice of the present turn."""
    started_at: float = field(default_factory=time.monotonic)
    turns: int = 0
    worked_since_look: bool = False
    deletion: "asyncio.Future[None] | None" = None
    """Of its message, once that is not needed any more."""
    visited: bool = False
    """Another wake-up of its session has come to this worker since it last looked."""
    unlocked: bool = False
    head_held: bool = False
    """Somebody sits on the row of the session's head: what is due there could not be owed a wake-up."""
    unmarked: bool = False
    """It had no lock, so it left no mark, and another worker answers the session's head: that one may not know of the message's
    turn, which was committed while it settled."""
    exhausted: bool = False
    """It must end for a reason of its own: superseded, a handler that was left behind, or no slot for its turn."""

    @classmethod
    def under(
        cls, guard: Guard, lock: LockedSession, wake_up: WakeUp, message: ReceivedMessage | None
    ) -> "Hold | None":
        """The hold that begins with this answer about its lock; None if there is none."""
        match guard:
            case Guard.LOCKED:
                return cls(wake_up, message, lock, Kept(lock, message))
            case Guard.UNGUARDED:
                return cls(wake_up, message, None, Kept(None, message))
            case Guard.UNANSWERED:
                # Given back at the end: a lock that was taken all the same would turn away the session's wake-ups for a lease.
                return cls(wake_up, message, lock, Kept(None, message))
            case Guard.BUSY:
                # Normal, not an error (G3): its holder has been told to look once more.
                return None
            case _:
                assert_never(guard)

    def may_go_on(self, settings: Settings, now: float, *, wanted: bool) -> bool:
        """Whether it may claim another turn. `wanted`: the next wake-up that comes would find no slot.

        Bounded in turns only then, or one tenant's long session would starve the rest; with a slot free for whoever comes, to
        end would be a way over the queue for nothing (ADR 0041). Bounded in time always: a lock that is held for longer is a
        sign that something is wrong (L6).
        """
        if self.exhausted or now - self.started_at >= settings.hold_seconds:
            return False
        return not wanted or self.turns < settings.hold_turns

    @property
    def most_crashes(self) -> int:
        """What a turn may have on its record that is claimed now."""
        return 0 if self.seat is None else self.seat.crashes

    def leave_quarantine(self, left_behind: "asyncio.Future[Any] | None" = None) -> None:
        """Gives its seat back, if it has one; with a handler that ignored its cancellation, when that ends."""
        seat, self.seat = self.seat, None
        if seat is not None:
            seat.leave(left_behind)

    def give_up_turn(self) -> None:
        """Its turn is another claim's by now: not a word more about it, and no other is claimed."""
        self.kept.end()
        if self.emitter is not None:
            self.emitter.fall_silent()
        self.exhausted = True


class Holds:
    """The sessions that this worker has in its hands, each until it begins to give its lock back.

    Who comes for one of them finds it busy without asking Redis, and leaves word here instead of the mark beside the lock. A
    session with many turns in the queue has a wake-up for each, and all of them come while it is held.
    """

    def __init__(self) -> None:
        self._by_session: dict[tuple[str, str], Hold] = {}

    def visit(self, wake_up: WakeUp) -> bool:
        """Whether its session is held here. The hold looks at the session once more then, before it lets go."""
        hold = self._by_session.get((wake_up.tenant_id, wake_up.session_id))
        if hold is not None:
            hold.visited = True
        return hold is not None

    def keep(self, hold: Hold) -> None:
        """It has its session, or has it still."""
        self._by_session[_session(hold)] = hold

    def drop(self, hold: Hold) -> None:
        """From here on Redis is asked. Before the lock is given back, or who comes meanwhile would leave word with nobody."""
        # Without Redis there may be two holds of a session; the claim decides, and the later one is the one that is found here.
        if self._by_session.get(_session(hold)) is hold:
            del self._by_session[_session(hold)]


def _session(hold: Hold) -> tuple[str, str]:
    return hold.wake_up.tenant_id, hold.wake_up.session_id
