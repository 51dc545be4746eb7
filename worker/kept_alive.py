"""What the heartbeat keeps alive for one session run: its lock, its message, and the lease of its turn."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.session_lock import LockedSession


@dataclass(slots=True)
class Kept:
    """What is kept alive for one hold; written by the event loop, read by the heartbeat."""

    lock: LockedSession | None
    message: ReceivedMessage | None
    turn: ClaimedTurn | None = None
    stop: Callable[..., None] | None = None
    """Stops the attempt at `turn` (`worker.attempt.attempt.Attempt.stop`); called through the event loop."""
    renewed_at: float = field(default_factory=time.monotonic)
    keeps_lock: bool = True
    """False from the moment on at which the lock is given back: it is not to be taken again, though it be found free."""
    mark_lost: bool = False
    """The lock was gone for a while, and with it perhaps the mark of somebody who waits."""
    begun_at: float = 0.0
    renew_until: float = 0.0

    def begin(self, turn: ClaimedTurn, stop: Callable[..., None], renew_until: float) -> None:
        """A turn was claimed just now."""
        self.begun_at = self.renewed_at = time.monotonic()
        self.renew_until = renew_until
        self.stop = stop
        self.turn = turn

    def end(self) -> None:
        """Its claim is settled."""
        self.turn = None
        self.stop = None
