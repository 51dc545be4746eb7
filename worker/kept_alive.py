"""What the heartbeat keeps alive for one session run: its lock, its message, and the lease of its turn."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.session_lock import LockedSession


@dataclass(slots=True)
class KeptAlive:
    """Written by the worker's event loop, read by the heartbeat's."""

    lock: LockedSession | None
    message: ReceivedMessage | None
    turn: ClaimedTurn | None = None
    stop: Callable[..., None] | None = None
    """Stops the attempt at `turn` (`worker.attempt.attempt.Attempt.stop`); called through the event loop."""
    renewed_at: float = field(default_factory=time.monotonic)
    keeps_lock: bool = True
    """False from the start of the lock's release on: the heartbeat must not take it again."""
    mark_lost: bool = False
    """The lock was lost for a while, and perhaps the waiting mark with it."""
    begun_at: float = 0.0
    renew_until: float = 0.0

    def begin(self, turn: ClaimedTurn, stop: Callable[..., None], renew_until: float) -> None:
        """Call it right after a claim."""
        self.begun_at = self.renewed_at = time.monotonic()
        self.renew_until = renew_until
        self.stop = stop
        self.turn = turn

    def end(self) -> None:
        """Call it when the claim is settled or superseded."""
        self.turn = None
        self.stop = None
