"""The path of a turn, from a received message to its deletion. The file to read first.

    read -> enter -> lock -> claim -> handle -> decide -> settle (and claim the next) -> delete -> unlock

Commit first, then delete (rule 4). Until the first settle is committed (on FIFO: the claim) the message is still in the queue.
After it, the row always has a lease or a `send_at`. So wherever a worker dies, something brings the turn back.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from turnstile.config.settings import Settings
from turnstile.errors import MessageStaysError
from turnstile.limits.fleet_limits import WaitingSession
from turnstile.process import logs
from turnstile.statements.claim import Claim, NoClaim
from turnstile.statements.lost_turns import LostTurn
from turnstile.statements.settle import Superseded
from turnstile.statements.turns_ahead import TurnAhead
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import QueueAddress, ReceivedMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.attempt.outcome import Outcome
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.claiming import Claimer
from turnstile.worker.crash_isolation import Seat
from turnstile.worker.handler_run import HandlerRunner
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.received_message import Delivery
from turnstile.worker.session_lock import Guard, Release, SessionLock, lock_key, name_lock
from turnstile.worker.session_run import SessionRun, SessionRuns
from turnstile.worker.settling import Settler
from turnstile.worker.slots.tenant_admission import TenantCap
from turnstile.worker.turn_log import report_lock, report_unlock


@dataclass(kw_only=True, eq=False)
class Processor:
    """Processes the turns of one queue. Up to twice as many calls of `process` run at a time as the worker has slots."""

    settings: Settings
    queue: QueueAddress
    worker_id: str
    lock: SessionLock
    heartbeat: Heartbeat
    delivery: Delivery
    cap: TenantCap
    claimer: Claimer
    runner: HandlerRunner
    settler: Settler
    observer: AttemptObserver
    may_begin: Callable[[], bool]
    """False while the worker stops or its queue is paused: it begins no more turns."""

    def __post_init__(self) -> None:
        self._runs = SessionRuns()
        # A token is used by one session run only, also across restarts of a worker with the same id.
        life = f"{self.worker_id}:{uuid4().hex}"
        self._tokens = (f"{life}-{run}" for run in count(1))

    async def process(self, message: ReceivedMessage) -> "asyncio.Future[Any] | None":
        """Runs the due turns of the message's session. Returns a handler that ignored its cancellation and still runs, if any.

        Raises DatabaseUnavailableError only after `given_up`; SQS then delivers the message again. Raises MessageStaysError for a
        message that the caller must give back to SQS.
        """
        if (wake_up := await self.delivery.read(message)) is None:
            return None
        # Bound to every log line of this run; `TurnLog` binds the ids of each claimed turn.
        logs.bind(turn_id=str(wake_up.turn_id), session_id=wake_up.session_id, trace_id=message.trace_id)
        if self._runs.visit(wake_up):
            # Before the tenant's cap: otherwise a deferred session would be woken instead of one that really waits for
            # a slot.
            self._report_lock(wake_up, message, Guard.BUSY, 0.0)
            await self.delivery.delete(message)
            return None
        if not await self.cap.enter(wake_up):
            self.observer.received(wake_up, message, "deferred")
            await self.delivery.delete(message)
            return None
        return await self._run_in_cap(wake_up, message)

    async def take_over(self, lost: LostTurn, seat: Seat) -> "asyncio.Future[Any] | None":
        """Takes over a lost turn, in its seat in quarantine. There is no message to delete.

        Raises DatabaseUnavailableError only after `given_up`; takeover then finds the turn again.
        """
        wake_up = WakeUp(lost.tenant_id, lost.session_id, lost.turn_id)
        logs.bind(turn_id=str(lost.turn_id), session_id=lost.session_id, trace_id=lost.trace_id)
        try:
            if self._runs.visit(wake_up) or self.cap.is_full(lost.tenant_id) or not await self.cap.enter(wake_up):
                return None
            return await self._run_in_cap(wake_up, None, seat)
        finally:
            # Usually the session run has left the seat already; this covers a turn that was never claimed.
            seat.leave()

    async def take_ahead(self, turn: TurnAhead) -> "asyncio.Future[Any] | None":
        """Takes a turn with a head start before the messages that it overtakes. Its own message finds the turn claimed or ended.

        Raises DatabaseUnavailableError only after `given_up`.
        """
        logs.bind(turn_id=str(turn.turn_id), session_id=turn.session_id, trace_id=turn.trace_id)
        return await self._run_unasked(WakeUp(turn.tenant_id, turn.session_id, turn.turn_id))

    async def take_called(self, session: WaitingSession) -> "asyncio.Future[Any] | None":
        """Takes the head of a session for which a limit keeps a place for a moment. Which turn that is, only its claim says.

        Raises DatabaseUnavailableError only after `given_up`.
        """
        logs.bind(session_id=session.session_id)
        return await self._run_unasked(WakeUp(session.tenant_id, session.session_id, UUID(int=0)))

    async def _run_unasked(self, wake_up: WakeUp) -> "asyncio.Future[Any] | None":
        if self._runs.visit(wake_up) or self.cap.is_full(wake_up.tenant_id) or not await self.cap.enter(wake_up):
            return None
        return await self._run_in_cap(wake_up, None)

    async def _run_in_cap(
        self, wake_up: WakeUp, message: ReceivedMessage | None, seat: Seat | None = None
    ) -> "asyncio.Future[Any] | None":
        left_behind: asyncio.Future[Any] | None = None
        try:
            left_behind = await self._run_session(wake_up, message, seat)
            return left_behind
        finally:
            self.cap.leave(wake_up.tenant_id, left_behind)

    async def _run_session(
        self, wake_up: WakeUp, message: ReceivedMessage | None, seat: Seat | None = None
    ) -> "asyncio.Future[Any] | None":
        if (run := await self._lock(wake_up, message)) is None:
            if message is not None:
                await self.delivery.delete(message)
            return None
        run.seat = seat
        self.heartbeat.take(run.entry)
        self._runs.keep(run)
        try:
            await self._work(run)
        finally:
            self._runs.drop(run)
            run.entry.keeps_lock = False
            run.leave_quarantine()
            self.heartbeat.drop(run.entry)
            # Only after an error in the run. A lock that is not ours any more is not changed.
            if run.lock is not None:
                await self.lock.give_up(run.lock)
        if message is None:
            # The next look finds the turn again if need be.
            return run.left_behind
        if run.stays is not None and not run.turns:
            raise MessageStaysError(run.stays)
        # The run waits for the deletion: otherwise deletions would pile up while SQS is away.
        await self._begin_deletion(run, message)
        if run.stays is not None:
            await self.delivery.send_anew(wake_up, message)
        return run.left_behind

    # --- lock

    async def _lock(self, wake_up: WakeUp, message: ReceivedMessage | None) -> SessionRun | None:
        lock = name_lock(self.settings, wake_up.tenant_id, wake_up.session_id, next(self._tokens))
        began = time.monotonic()
        guard = Guard.BUSY if self._runs.visit(wake_up) else await self.lock.acquire(lock)
        self._report_lock(wake_up, message, guard, time.monotonic() - began)
        if guard is Guard.BUSY:
            # Normal, not an error: the lock's holder finds the waiting mark and looks once more.
            return None
        entry = HeartbeatEntry(lock if guard is Guard.LOCKED else None, message)
        # UNANSWERED is released at the end: if Redis did take it, the lock would turn away the session's wake-ups for a lease.
        ours = guard in {Guard.LOCKED, Guard.UNANSWERED}
        return SessionRun(wake_up, message, lock if ours else None, entry)

    def _report_lock(self, wake_up: WakeUp, message: ReceivedMessage | None, guard: Guard, seconds: float) -> None:
        key = lock_key(self.settings, wake_up.tenant_id, wake_up.session_id)
        report_lock(self.queue.name, key, self.settings.lease_seconds, guard, seconds)
        if message is not None:
            self.observer.received(wake_up, message, guard.result)

    # --- claim, handle, decide, settle; until the session has nothing due

    async def _work(self, run: SessionRun) -> None:
        while True:
            asked_at: int | None = time.time_ns()
            claimed = await self.claimer.claim(run)
            if self.queue.fifo and isinstance(claimed, ClaimedTurn) and run.message is not None:
                # The lease protects the turn now. A message that stayed in flight would block its group, and so the
                # recovery of the session, for a whole visibility timeout after a crash.
                self._begin_deletion(run, run.message)
            while isinstance(claimed, ClaimedTurn):
                self.observer.claimed(run, claimed, asked_at)
                outcome = await self.runner.handle(run, claimed)
                self.observer.handler_ended(run, outcome)
                claimed = await self._settle(run, claimed, outcome)
                asked_at = None
            if claimed is NoClaim.HEAD_LOCKED:
                # Another transaction had locked the due head during the settle, so the settle could not schedule its wake-up.
                if self._may_go_on(run):
                    continue
                await self.claimer.leave_to_others(run)
            if not await self._unlock(run):
                return

    async def _settle(self, run: SessionRun, turn: ClaimedTurn, outcome: Outcome) -> Claim:
        seconds = time.monotonic() - run.entry.begun_at
        settlement = self.settler.decide(turn, outcome, seconds, said=run.emitted)
        if settlement is None:
            return self._supersede(run, turn, at_settle=False)
        more = self._may_go_on(run)
        settled = await self.settler.settle(turn, settlement, run.entry, more=more)
        if isinstance(settled, Superseded):
            return self._supersede(run, turn, at_settle=True)
        run.entry.end()
        attempt = SettledAttempt(
            turn=turn, settlement=settlement, status=settled.status, reply=settled.reply, seconds=seconds, more=more
        )
        self.observer.settled(run, attempt)
        # Not awaited here: SQS may not respond before the next turn's lease, which is not renewed yet, or the session's lock
        # runs out.
        if run.message is not None:
            self._begin_deletion(run, run.message)
        if run.appended is not None and not isinstance(settled.next, ClaimedTurn):
            # Before the unlock: the session's next turn may run in another worker.
            await run.appended
        return settled.next

    def _supersede(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> NoClaim:
        """Another claim has the turn: discards the reply and changes nothing."""
        self.observer.superseded(run, turn, at_settle=at_settle)
        run.supersede()
        return NoClaim.IDLE

    # --- unlock

    async def _unlock(self, run: SessionRun) -> bool:
        """Releases the session lock; True if the run must claim from the session once more first."""
        while True:
            released = Release.LOOK_AGAIN if run.entry.look_again else await self._release(run)
            if not run.must_look_again(released):
                run.lock = None
                return False
            if self._may_go_on(run):
                run.entry.keeps_lock = True
                self._runs.keep(run)
                return True
            self._runs.drop(run)
            await self.claimer.leave_to_others(run)

    async def _release(self, run: SessionRun) -> Release:
        self._runs.drop(run)
        if run.lock is None:
            return Release.LOST
        run.entry.keeps_lock = False
        released = await self.lock.release(run.lock)
        report_unlock(self.queue.name, released, run)
        return released

    def _may_go_on(self, run: SessionRun) -> bool:
        wanted = self.cap.is_wanted(run.wake_up.tenant_id)
        return run.may_go_on(self.settings, time.monotonic(), wanted=wanted) and self.may_begin()

    # --- delete

    def _begin_deletion(self, run: SessionRun, message: ReceivedMessage) -> "asyncio.Future[None]":
        if run.deletion is None:
            run.entry.message = None
            run.deletion = self.delivery.delete(message)
        return run.deletion
