"""The heartbeat: one OS thread per process that keeps alive what the process holds.

On a thread of its own, with connections of its own, because a handler may block the event loop for longer than a lease.
Every third of the lease, in batches:

1. the rows' leases are renewed, and cancel requests come home with the answer. Without a turn in hand too: whether renewals work
   is the evidence on which turns are marked as lost (`relay.renewal_evidence`);
2. session locks are extended, by a second thread, but only while the last renewal of their row is younger than a lease, so that a
   worker that is cut off from Postgres does not keep a session to itself;
3. the messages' visibility is extended, by a third thread.

Redis may be silent or its name hard to resolve, and SQS may answer late: neither holds up a lease. While such a thread is still
at work, beats leave its part out.

In between it looks at single rows when it is nudged: a hint said that their turns were asked to stop.

Only a refused row renewal stops a handler. A lost lock does not, an outage does not: a lease that ran out and that nobody
took is renewed when the database is back. A turn that is past its deadline and grace is renewed no more, also when its
handler ignores its cancellation: others may take it over. The beat goes on through the drain of a shutdown.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
import structlog
from psycopg.rows import dict_row

from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.hang_detection import BoundedConnection
from turnstile.backends.sqs.transport import CONNECT_SECONDS, EXTEND_SECONDS
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.statements.renew_lease import Renewal, renew
from turnstile.statements.worker_registry import WorkerRecord, announce, withdraw
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import QueueAddress, ReceivedMessage
from turnstile.worker.aside import Aside
from turnstile.worker.attempt.outcome import StopReason
from turnstile.worker.attempt.run_blocking import in_own_thread
from turnstile.worker.session_lock import Extension, LockedSession, LockExtender

PATIENCE_SECONDS = 2.0
"""With beats that are closer together than that, a busy server would count as a silent one."""

log = structlog.get_logger("turnstile.heartbeat")


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


class Heartbeat:
    """Start it once per process. `call_soon` runs a function on the event loop from this thread."""

    def __init__(
        self,
        settings: Settings,
        queues: MessageQueues,
        address: QueueAddress,
        call_soon: Callable[..., object],
        describe: Callable[[], WorkerRecord],
        beat_on: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._queues = queues
        self._address = address
        self._call_soon = call_soon
        self._describe = describe
        self._beat_on = beat_on
        self._holds: dict[int, Kept] = {}
        self._nudged: set[UUID] = set()
        self._guard = threading.Lock()
        self._stopping = False
        self._roused = threading.Event()
        """Something is to be done before the next beat: a look, or the end."""
        self._extender = LockExtender(settings)
        self.evidence = RenewalEvidence(settings.lease_seconds, settings.heartbeat)
        self._connection: BoundedConnection | None = None
        self._locks = Aside("locks")
        self._messages = Aside("messages")
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Ends the thread and withdraws the worker from the registry. Blocks; a call of SQS or Redis may be left behind."""
        ends_at = time.monotonic() + timeout_seconds
        self._stopping = True
        self._roused.set()
        self._thread.join(timeout_seconds)
        self._messages.join(max(0.0, ends_at - time.monotonic()))
        self._locks.join(max(0.0, ends_at - time.monotonic()))
        if not self._locks.is_busy:
            self._extender.close()

    def take(self, kept: Kept) -> None:
        """From now on keep this alive."""
        with self._guard:
            self._holds[id(kept)] = kept

    def drop(self, kept: Kept) -> None:
        """No more."""
        with self._guard:
            self._holds.pop(id(kept), None)

    async def finish_extension(self) -> None:
        """Returns when no call is under way any more that extends a message which was dropped before.

        Waits for no longer than such a call takes where SQS does not answer it.
        """
        # One that has not begun yet will look at what is kept, and find it gone.
        if self._messages.is_busy:
            await in_own_thread(self._messages.join, CONNECT_SECONDS + EXTEND_SECONDS)

    def nudge(self, turn_id: UUID) -> None:
        """This turn's row may say that it is to stop: look now, if it is in this process's hands."""
        with self._guard:
            if all(kept.turn is None or kept.turn.id != turn_id for kept in self._holds.values()):
                return
            self._nudged.add(turn_id)
        self._roused.set()

    def _run(self) -> None:
        # The first at once: it announces the worker, and until then nobody can tell that the queue is served.
        next_beat = time.monotonic()
        while True:
            roused = self._roused.wait(max(0.01, next_beat - time.monotonic()))
            self._roused.clear()
            if self._stopping:
                break
            if roused and time.monotonic() < next_beat:
                self._try_beat(nudged=True)
                continue
            pause = self._settings.heartbeat if self._try_beat(nudged=False) else min(1.0, self._settings.heartbeat)
            next_beat = time.monotonic() + pause
        self._withdraw()

    def _try_beat(self, *, nudged: bool) -> bool:
        try:
            self._beat_on()
            return self._look() if nudged else self._beat()
        except Exception:
            # A bug of ours. Without this thread every turn of the process would lose its lease, and nothing would say so.
            log.exception("heartbeat.failed")
            return False

    def _look(self) -> bool:
        """Renews the rows that were hinted at, and no others: whoever can publish hints must not make all rows be written."""
        with self._guard:
            nudged, self._nudged = self._nudged, set()
            holds = [kept for kept in self._holds.values() if kept.turn is not None and kept.turn.id in nudged]
        return self._renew_rows(holds)

    def _beat(self) -> bool:
        """One beat; False if the database was away, so that the next comes sooner."""
        with self._guard:
            holds = list(self._holds.values())
        renewed = self._renew_rows(holds)
        now = time.monotonic()
        if locked := [kept for kept in holds if kept.lock and now - kept.renewed_at < self._settings.lease_seconds]:
            self._locks.begin(self._extend_locks, locked)
        if received := [kept for kept in holds if kept.message]:
            self._messages.begin(self._extend_messages, received)
        return renewed

    def _extend_locks(self, holds: list[Kept]) -> None:
        locked = {kept.lock: kept for kept in holds if kept.lock is not None and kept.keeps_lock}
        extensions = self._extender.extend(list(locked), lambda lock: locked[lock].keeps_lock)
        for (lock, kept), extension in zip(locked.items(), extensions, strict=True):
            if extension in (Extension.RETAKEN, Extension.LOST):
                kept.mark_lost = True
                log.info("heartbeat.lock_lost", key=lock.key, now=extension.value)

    def _extend_messages(self, holds: list[Kept]) -> None:
        self._queues.extend(self._address, self._still_kept(holds))

    def _still_kept(self, holds: list[Kept]) -> Iterator[ReceivedMessage]:
        # Asked batch by batch, of which there may be many: one that was given back meanwhile would be hidden from everybody.
        for kept in holds:
            with self._guard:
                message = kept.message if id(kept) in self._holds and not self._stopping else None
            if message is not None:
                yield message

    def _renew_rows(self, holds: list[Kept]) -> bool:
        now = time.monotonic()
        wanted = {
            (turn.id, turn.fence): kept for kept in holds if (turn := kept.turn) is not None and now < kept.renew_until
        }
        try:
            connection = self._connect()
            for renewal in renew(connection, list(wanted), self._settings.lease_seconds):
                self._heed(wanted[renewal.id, renewal.fence], renewal, now)
            self.evidence.worked(time.monotonic())
            # Last: what is told of the worker must not be in the way of its leases.
            announce(connection, self._describe())
        except psycopg.Error as error:
            log.warning("heartbeat.database_away", error=f"{type(error).__name__}: {error}", turns=len(wanted))
            self.evidence.failed()
            self._disconnect()
            return False
        return True

    def _heed(self, kept: Kept, renewal: Renewal, beat_at: float) -> None:
        turn, stop = kept.turn, kept.stop
        if turn is None or stop is None or turn.fence != renewal.fence:
            # The hold has settled it meanwhile; that is why the renewal was refused.
            return
        if not renewal.ours:
            log.info("heartbeat.superseded", turn_id=str(turn.id), session_id=turn.session_id, fence=turn.fence)
            self._call_soon(stop, StopReason.SUPERSEDED)
        elif renewal.cancel_requested:
            self._call_soon(stop, StopReason.CANCELED, CancelReason.read(renewal.cancel_reason))
        if renewal.renewed:
            kept.renewed_at = beat_at

    def _connect(self) -> BoundedConnection:
        if self._connection is None or self._connection.closed:
            self._connection = BoundedConnection.connect(
                conninfo(self._settings.database_url, "turnstile-heartbeat", pinned=True),
                autocommit=True,
                row_factory=dict_row,
            )
            # Locks, messages and the watchdog wait behind it: a silent server must not hold up more than the next beat.
            self._connection.patience_seconds = max(PATIENCE_SECONDS, self._settings.heartbeat)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _withdraw(self) -> None:
        try:
            withdraw(self._connect(), self._describe().worker_id)
        except psycopg.Error as error:
            log.info("heartbeat.not_withdrawn", error=f"{type(error).__name__}: {error}")
        self._disconnect()
