"""The way of a turn, from a received message to its deletion. The file to read first.

    read -> enter -> lock -> claim -> handle -> decide -> settle (and claim the next) -> delete -> unlock

Commit first, then delete (rule 4): until the first settle is committed (on FIFO: the claim) the message is still there;
after it, the row has a lease or a `send_at` at every instant: wherever a worker dies, something brings the turn back.
"""

import asyncio
import time
from functools import partial
from itertools import count
from typing import Any, assert_never
from uuid import uuid4

import structlog

from turnstile.config import logs
from turnstile.config.settings import Settings
from turnstile.errors import RowHeldError
from turnstile.statements.claim import Claim, ClaimTerms, NoClaim
from turnstile.statements.lost_turns import LostTurn
from turnstile.statements.settle import Settled, Superseded
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt.wake_parents import ParentWaking
from turnstile.worker.claiming import Claiming
from turnstile.worker.database_retry import Outlast, outlast
from turnstile.worker.delivery import Delivery
from turnstile.worker.dependencies import Workbench
from turnstile.worker.handling import Handled, Handling
from turnstile.worker.quarantine import Quarantine, Seat
from turnstile.worker.session_lock import Guard, Release, name_lock
from turnstile.worker.session_release import Leaving
from turnstile.worker.session_run import Hold, Holds
from turnstile.worker.settling import Settling
from turnstile.worker.slots.queue_latency import Dwell
from turnstile.worker.slots.tenant_cap import Entry, TenantCap
from turnstile.worker.slots.tenant_slots import TenantSlots
from turnstile.worker.turn_log import report_settled

log = structlog.get_logger("turnstile.worker")


class Processor:
    """Answers the turns of one queue. `process` runs as often at a time as the worker has slots, and as often again."""

    def __init__(self, settings: Settings, with_: Workbench) -> None:
        self._settings = settings
        self._queue = settings.find_queue(settings.queue)
        self._with = with_
        self._outlast: Outlast = partial(outlast, given_up=with_.given_up)
        self._terms = ClaimTerms(
            queue=self._queue.name,
            worker_id=with_.worker_id,
            lease_seconds=settings.lease_seconds,
            max_crashes=self._queue.max_crashes,
            halt=self._queue.halts,
            compensates=with_.handler.on_failed is not None,
            compensation_expires_seconds=self._queue.expires_in_seconds,
        )
        self._settling = Settling(settings, with_.handler, with_.database, self._terms, self._outlast)
        self._delivery = Delivery(settings, self._queue, with_.database, with_.queues, self._outlast)
        self._leaving = Leaving(with_, self._delivery, self._outlast)
        self._claiming = Claiming(with_, self._terms, self._leaving, self._outlast)
        self._handling = Handling(settings, self._queue, with_, self._outlast)
        shares = TenantSlots(settings.tenant_slots, with_.slots.count)
        self._cap = TenantCap(shares, self._queue.name, with_.database, with_.nudge_relay, self._outlast)
        self._parents = ParentWaking(with_.database, with_.nudge_relay)
        self._holds = Holds()
        # Fresh for every hold, of whatever worker and whichever of its lives.
        life = f"{with_.worker_id}:{uuid4().hex}"
        self._tokens = (f"{life}-{hold}" for hold in count(1))

    async def process(self, message: ReceivedMessage) -> "asyncio.Future[Any] | None":
        """Does all that one message asks for. Returns a handler that ignored its cancellation and still runs, if any.

        Raises DatabaseUnavailableError only after `given_up`; the message then comes back by itself.
        """
        try:
            if (wake_up := await self._delivery.read(message)) is None:
                return None
        except RowHeldError:
            await self._leaving.keep(message)
            return None
        # Every line of this hold says what it is about; `_handle` says so anew for each turn of a drain.
        logs.bind(turn_id=str(wake_up.turn_id), session_id=wake_up.session_id, trace_id=message.trace_id)
        if self._holds.visit(wake_up):
            # Before the cap: put off, it would be sent for in place of a session that does wait for a slot of its tenant's.
            log.info("session.lock", result=Guard.BUSY.as_told, seconds=0.0)
            await self._delivery.delete(message)
            return None
        match await self._cap.enter(wake_up):
            case Entry.LET_IN:
                left_behind: asyncio.Future[Any] | None = None
                try:
                    left_behind = await self._hold(wake_up, message)
                finally:
                    self._cap.leave(wake_up.tenant_id, left_behind)
                return left_behind
            case Entry.PUT_OFF:
                self._with.slots.turn_away()
                await self._delivery.delete(message)
            case Entry.HELD:
                self._with.slots.turn_away()
                await self._leaving.keep(message)
        return None

    def full_tenants(self) -> list[str]:
        """The tenants that may have no more of the slots now."""
        return self._cap.full_tenants()

    async def recover(self, lost: LostTurn, seat: Seat) -> "asyncio.Future[Any] | None":
        """Takes over a lost turn, in its place in quarantine. No message brings it, and none is deleted for it.

        Raises DatabaseUnavailableError only after `given_up`; the turn is found again then.
        """
        wake_up = WakeUp(lost.tenant_id, lost.session_id, lost.turn_id)
        logs.bind(turn_id=str(lost.turn_id), session_id=lost.session_id, trace_id=lost.trace_id)
        left_behind: asyncio.Future[Any] | None = None
        try:
            if (
                self._holds.visit(wake_up)
                or self._cap.is_full(lost.tenant_id)
                or await self._cap.enter(wake_up) is not Entry.LET_IN
            ):
                return None
            try:
                left_behind = await self._hold(wake_up, None, seat)
            finally:
                self._cap.leave(wake_up.tenant_id, left_behind)
        finally:
            # The hold gives it back as soon as its run is over; this is for a turn that did not come so far.
            seat.leave()
        return left_behind

    async def _hold(
        self, wake_up: WakeUp, message: ReceivedMessage | None, seat: Seat | None = None
    ) -> "asyncio.Future[Any] | None":
        if (hold := await self._lock(wake_up, message)) is None:
            if message is not None:
                await self._delivery.delete(message)
            return None
        hold.seat = seat
        self._with.heartbeat.take(hold.kept)
        self._holds.keep(hold)
        try:
            left_behind = await self._work(hold)
        finally:
            self._holds.drop(hold)
            hold.kept.keeps_lock = False
            hold.leave_quarantine()
            self._with.heartbeat.drop(hold.kept)
            # Only if something went wrong on the way; a lock that is not ours any more is left alone (R3).
            if hold.lock is not None and not hold.unlocked:
                await self._with.lock.give_up(hold.lock)
        # The slot waits for it, or what can't be deleted would pile up.
        if hold.head_held:
            await self._leaving.leave_message(hold)
        elif hold.unmarked and hold.deletion is None:
            await self._leaving.come_again(hold)
        elif (deletion := self._begin_deletion(hold)) is not None:
            await deletion
        return left_behind

    def hand_back(self) -> None:
        """Stops every handler; its turn goes back to PENDING, free of charge and due at once."""
        self._handling.hand_back()

    @property
    def quarantine(self) -> Quarantine:
        """The places of turns that have crashed a worker before."""
        return self._claiming.quarantine

    @property
    def dwell(self) -> Dwell:
        """How long turns wait in the queue at present; published with the heartbeat."""
        return self._handling.dwell

    # --- lock

    async def _lock(self, wake_up: WakeUp, message: ReceivedMessage | None) -> Hold | None:
        lock = name_lock(self._settings, wake_up.tenant_id, wake_up.session_id, next(self._tokens))
        began = time.monotonic()
        guard = Guard.BUSY if self._holds.visit(wake_up) else await self._with.lock.acquire(lock)
        log.info("session.lock", result=guard.as_told, seconds=round(time.monotonic() - began, 4))
        return Hold.under(guard, lock, wake_up, message)

    # --- claim, handle, decide, settle; until the session has nothing due

    async def _work(self, hold: Hold) -> "asyncio.Future[Any] | None":
        left_behind: asyncio.Future[Any] | None = None
        while True:
            claimed = await self._claiming.claim(hold)
            if self._with.fifo and isinstance(claimed, ClaimedTurn):
                # Its lease is behind the turn now. A message that stayed in flight would hold up its group, and so the
                # recovery of the session, for a whole visibility timeout after a crash.
                self._begin_deletion(hold)
            while isinstance(claimed, ClaimedTurn):
                handled = await self._handling.handle(hold, claimed)
                left_behind = handled.left_behind
                claimed = await self._settle(hold, claimed, handled)
            if claimed is NoClaim.LOOK_AGAIN:
                # A due head was in somebody's hand at the settle, so nobody has been told of it.
                if self._may_go_on(hold):
                    continue
                await self._leaving.leave_to_others(hold)
            if not await self._unlock(hold):
                return left_behind

    async def _settle(self, hold: Hold, turn: ClaimedTurn, handled: Handled) -> Claim:
        seconds = time.monotonic() - hold.kept.begun_at
        settlement = self._settling.decide(turn, handled.outcome, seconds, said=handled.said)
        if settlement is None:
            return _superseded(hold)
        more = self._may_go_on(hold)
        settled = await self._settling.settle(turn, settlement, more=more)
        match settled:
            case Superseded():
                return _superseded(hold)
            case Settled(status, following, reply):
                hold.kept.end()
                if hold.emitter is not None:
                    hold.emitter.settled(status, settlement)
                report_settled(turn, status, settlement, seconds, halts=self._terms.halt)
                self._parents.settled(turn, status, settlement)
                if status is TurnStatus.FAILED or not more:
                    self._with.nudge_relay()
                # Not waited for here: SQS may be silent, and the next turn's lease, which nobody renews yet, or the session's
                # lock would be out before it answers.
                self._begin_deletion(hold)
                if isinstance(following, ClaimedTurn):
                    # It was claimed with the history that this makes, and waits for it if it wants to read it.
                    self._with.history.begin_append(turn, reply)
                else:
                    await self._with.history.append(turn, reply)
                return following
            case _:
                assert_never(settled)

    # --- unlock

    async def _unlock(self, hold: Hold) -> bool:
        """Gives the session back; True if it must be looked at once more before."""
        while True:
            released = Release.LOOK_AGAIN if hold.visited else await self._release(hold)
            # Without a lock, or where it was gone for a while, there may have been no mark; and a lost answer may have taken
            # one with it. A turn that was committed while the last settle was under way has had a wake-up that found the
            # session RUNNING, so after such a stretch of work the session is looked at once more. Once: with Redis away
            # every answer is lost, and the row's net has the rest.
            again = hold.kept.mark_lost or released is Release.LOOK_AGAIN
            if released in (Release.LOST, Release.UNKNOWN):
                again = again or hold.worked_since_look
            hold.worked_since_look = hold.kept.mark_lost = hold.visited = False
            if not again:
                hold.unlocked = True
                return False
            if self._may_go_on(hold):
                hold.kept.keeps_lock = True
                self._holds.keep(hold)
                return True
            self._holds.drop(hold)
            await self._leaving.leave_to_others(hold)

    async def _release(self, hold: Hold) -> Release:
        self._holds.drop(hold)
        if hold.lock is None:
            return Release.LOST
        hold.kept.keeps_lock = False
        released = await self._with.lock.release(hold.lock)
        held_seconds = round(time.monotonic() - hold.started_at, 4)
        log.info("session.unlock", result=released.value, held_seconds=held_seconds, turns=hold.turns)
        return released

    def _may_go_on(self, hold: Hold) -> bool:
        wanted = self._with.is_full() or self._cap.is_full(hold.wake_up.tenant_id)
        may = hold.may_go_on(self._settings, time.monotonic(), wanted=wanted)
        return may and not self._with.stopping.is_set()

    # --- delete

    def _begin_deletion(self, hold: Hold) -> "asyncio.Future[None] | None":
        if hold.deletion is None and hold.message is not None:
            hold.kept.message = None
            hold.deletion = self._delivery.delete(hold.message)
        return hold.deletion


def _superseded(hold: Hold) -> NoClaim:
    """The turn is another claim's by now: discard what was answered, touch nothing, go."""
    log.info("turn.superseded")
    hold.give_up_turn()
    return NoClaim.IDLE
