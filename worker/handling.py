"""Handle: a claimed turn is given to the user's function, and an outcome comes back."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any

import structlog

from turnstile.config import logs
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.memory.working import WorkingMemory
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.attempt.child_intake import ChildIntake
from turnstile.worker.attempt.children import Children
from turnstile.worker.attempt.context import TurnContext, turn_for_handler
from turnstile.worker.attempt.once import RecordedValues
from turnstile.worker.attempt.outcome import Outcome, Stopped, StopReason
from turnstile.worker.database_retry import Outlast
from turnstile.worker.dependencies import WorkerDeps
from turnstile.worker.session_run import SessionRun
from turnstile.worker.slots.queue_latency import QueueLatency
from turnstile.worker.slots.slots import QUICK_SECONDS

MOST_WAIT_SECONDS = QUICK_SECONDS
"""For a slot. Turns are taken in ahead of handlers that take no longer than this; where none has ended for so long the pace has
broken off, and another worker may have a slot that is free."""

log = structlog.get_logger("turnstile.handler")


@dataclass(frozen=True, slots=True)
class Handled:
    """What came of an attempt."""

    outcome: Outcome
    said: str | None
    """What it had emitted by its end."""
    left_behind: "asyncio.Future[Any] | None"
    """The handler, if it ignored its cancellation and still runs."""


class Handling:
    """Runs the attempts of one worker."""

    def __init__(self, settings: Settings, queue: QueueSettings, deps: WorkerDeps, outlast: Outlast) -> None:
        self._settings = settings
        self._queue = queue
        self._deps = deps
        self._outlast = outlast
        self._child_intake = ChildIntake(settings, deps.database, deps.queues)
        # In the order of their beginning: a dict, because a set of them would be gone through in the order of their addresses.
        self._attempts: dict[Attempt, None] = {}
        self._handing_back = False
        self.queue_latency = QueueLatency()

    def hand_back(self) -> None:
        """Stops every handler, and each that is still to come, as at a shutdown."""
        self._handing_back = True
        for attempt in self._attempts:
            attempt.stop(StopReason.SHUTDOWN)

    async def handle(self, run: SessionRun, turn: ClaimedTurn) -> Handled:
        """Runs the handler to an outcome."""
        handler = self._deps.handler.for_kind(turn.kind)
        asked = turn.timeout_seconds or handler.timeout or self._queue.timeout_seconds
        timeout = min(asked, self._deps.longest_attempt_seconds)
        grace = self._settings.cancel_grace_seconds
        run.emitter = self._deps.emitters.begin(turn)
        context = TurnContext(
            turn,
            timeout,
            self._outlast,
            history=self._deps.history,
            memory=WorkingMemory(self._deps.memory, self._deps.database, turn, self._outlast),
            emitter=run.emitter,
            values=RecordedValues(turn, self._deps.database, self._outlast),
            children=Children(turn, self._deps.database, self._outlast, self._child_intake),
        )
        attempt = Attempt(handler, turn_for_handler(turn), context, self._deps.threads)
        logs.bind(turn_id=str(turn.id), trace_id=turn.trace_id, attempt=turn.attempt)
        run.turns += 1
        run.worked_since_look = True
        if run.turns == 1 and turn.attempt == 1:
            # The later turns of a session run have waited for their own session, not for the queue.
            self.queue_latency.note(turn.queue_latency_seconds, time.monotonic())
        # Until its own deadline and grace are over, and then no more, whatever the handler does.
        reach = timeout + grace + self._settings.lease_seconds
        run.kept.begin(turn, attempt.stop, time.monotonic() + reach)
        self._attempts[attempt] = None
        if self._handing_back:
            attempt.stop(StopReason.SHUTDOWN)
        log.info("turn.claimed", fence=turn.fence, seq=turn.seq, crashes=turn.crashes)
        try:
            outcome = await self._run_in_slot(attempt, context, run, timeout)
            run.emitter.handler_ended()
            # Handed back for want of a slot it is due, and must not be claimed by the same run again.
            run.exhausted |= outcome == Stopped(StopReason.NO_SLOT)
            return Handled(outcome, context.said_so_far, attempt.left_behind)
        finally:
            del self._attempts[attempt]
            run.exhausted |= attempt.left_behind is not None
            run.leave_quarantine(attempt.left_behind)

    async def _run_in_slot(self, attempt: Attempt, context: TurnContext, run: SessionRun, timeout: float) -> Outcome:
        slots = self._deps.slots
        if not slots.take():
            since = time.monotonic()
            has_slot = await self._wait_for_slot(attempt)
            context.start_clock(timeout)
            run.kept.renew_until += time.monotonic() - since
            if not has_slot:
                return attempt.not_begun(StopReason.NO_SLOT)
        began = time.monotonic()
        try:
            return await attempt.run(timeout, self._settings.cancel_grace_seconds)
        finally:
            if attempt.left_behind is not None:
                attempt.left_behind.add_done_callback(lambda _: slots.give_back())
            else:
                # A session run that goes on keeps its place among the turns in hand: only its first turn frees one.
                slots.give_back(time.monotonic() - began if run.turns == 1 else math.inf)

    async def _wait_for_slot(self, attempt: Attempt) -> bool:
        slots = self._deps.slots
        place = slots.stand_in_line()
        try:
            await attempt.wait_for(place, MOST_WAIT_SECONDS / 2)
            # In halves: after a loop that stood still, this wait is over before handlers that are over as well can say so.
            if not place.done():
                await attempt.wait_for(place, MOST_WAIT_SECONDS / 2)
        except BaseException:
            if slots.leave(place):
                # Cancelled in the very moment in which the slot had come.
                slots.give_back()
            raise
        if not slots.leave(place):
            return False
        if self._deps.stopping.is_set():
            # It has not begun, and in a worker that is to stop none begins any more; the next in the line goes the same way.
            slots.give_back()
            return False
        return True
