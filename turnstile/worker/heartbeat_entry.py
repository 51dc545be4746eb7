"""What the heartbeat keeps alive for one session run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from turnstile.limits.fleet_limits import Places
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.session_lock import LockedSession


@dataclass(slots=True)
class HeartbeatEntry:
    """What the heartbeat keeps alive for one session run: its lock, its message, and the lease of its turn.

    Written on the worker's event loop, read by the heartbeat's thread, which sets `ours_at`, `look_again`
    and `logged_at`.
    """

    lock: LockedSession | None
    message: ReceivedMessage | None
    turn: ClaimedTurn | None = None
    stop: Callable[..., None] | None = None
    """Stops the attempt of `turn` (`worker.attempt.attempt.Attempt.stop`). Must be called on the worker's event loop. None once
    the handler has ended."""
    ours_at: float = field(default_factory=time.monotonic)
    """When Postgres last said that the row is ours."""
    keeps_lock: bool = True
    """False once the lock's release has begun: the heartbeat must not retake it."""
    look_again: bool = False
    """The session must be looked at once more before the lock is released: another wake-up of it has reached this worker, or the
    lock was lost for a while, and perhaps the waiting mark with it."""
    held_since: float = field(default_factory=time.monotonic)
    """When the lock was acquired."""
    logged_at: float = -math.inf
    """When a line last said how long the lock has been held (`worker.held_locks`)."""
    begun_at: float = 0.0
    renew_until: float = 0.0
    places: Places | None = None
    """What the turn has taken of the limits (`worker.limiting`), until it gives that back. None: nothing."""

    def begin(self, turn: ClaimedTurn, stop: Callable[..., None], renew_until: float) -> None:
        """Begins to keep a turn's lease; call it right after the claim. `renew_until` is in monotonic seconds."""
        self.begun_at = self.ours_at = time.monotonic()
        self.renew_until = renew_until
        self.stop = stop
        self.turn = turn

    def keep_for(self, seconds: float) -> None:
        """Keeps the turn's lease for at least this long from now: its settle has not succeeded yet."""
        self.renew_until = max(self.renew_until, time.monotonic() + seconds)

    def handler_ended(self) -> None:
        """Nothing is left to stop. The lease is kept until the settle; a renewal that the settle has overtaken is refused, and
        means nothing."""
        self.stop = None

    def end(self) -> None:
        """Stops keeping the turn's lease; call it when the claim is settled or superseded."""
        self.turn = None
        self.stop = None
