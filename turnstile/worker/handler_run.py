"""Handle: runs the user's function for a claimed turn, and returns its outcome."""

import math
import time
from collections.abc import Callable
from concurrent.futures import Executor

from turnstile.config.queue_settings import QueueSettings
from turnstile.memory.working_memory import WorkingMemory
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.attempt import Attempt
from turnstile.worker.attempt.attempt_context import TurnContext, turn_for_handler
from turnstile.worker.attempt.child_intake import ChildIntake
from turnstile.worker.attempt.children import Children
from turnstile.worker.attempt.once import RecordedValues
from turnstile.worker.attempt.outcome import Outcome, Stopped, StopReason
from turnstile.worker.broken_handler import BrokenHandlerWatch
from turnstile.worker.database_retry import RetryWhileDown
from turnstile.worker.resources import Resources
from turnstile.worker.session_run import SessionRun
from turnstile.worker.slots.queue_latency import QueueLatency
from turnstile.worker.slots.slots import QUICK_SECONDS, Slots

MOST_WAIT_SECONDS = QUICK_SECONDS
"""The longest wait for a slot. Turns are prefetched only while handlers take no longer than this. If none has ended for
this long, handlers no longer end at that pace, and another worker may have a free slot."""


class HandlerRunner:
    def __init__(
        self,
        resources: Resources,
        queue: QueueSettings,
        slots: Slots,
        threads: Executor,
        may_begin: Callable[[], bool],
        retry_while_down: RetryWhileDown,
        longest_attempt_seconds: float,
        broken_handler: BrokenHandlerWatch,
    ) -> None:
        self._settings = resources.settings
        self._resources = resources
        self._queue = queue
        self._slots = slots
        self._threads = threads
        self._may_begin = may_begin
        self._retry_while_down = retry_while_down
        self._longest_attempt_seconds = longest_attempt_seconds
        self._broken_handler = broken_handler
        self._child_intake = ChildIntake(
            resources.settings,
            resources.database,
            resources.queues,
            CancelHints(resources.settings, resources.redis),
            resources.traces,
        )
        # A dict used as an ordered set: the iteration order of a set would depend on memory addresses.
        self._attempts: dict[Attempt, float] = {}
        """When each began, by the monotonic clock."""
        self._handing_back = False
        self.queue_latency = QueueLatency()

    def longest_seconds(self, now: float) -> float:
        """How long the oldest running attempt has been running; 0 if none runs. For any thread."""
        # A copy: the event loop's thread adds and removes attempts meanwhile.
        return now - min(list(self._attempts.values()), default=now)

    def hand_back(self) -> None:
        """Stops every handler as at a shutdown; handlers that begin later are stopped as well."""
        self._handing_back = True
        for attempt in self._attempts:
            attempt.stop(StopReason.SHUTDOWN)

    async def handle(self, run: SessionRun, turn: ClaimedTurn) -> Outcome:
        resources = self._resources
        handler = resources.handler.for_kind(turn.kind)
        asked = turn.timeout_seconds or handler.timeout or self._queue.timeout_seconds
        timeout = min(asked, self._longest_attempt_seconds)
        grace = self._settings.cancel_grace_seconds
        run.emitter = resources.emitters.begin(turn)
        context = TurnContext(
            turn,
            timeout,
            self._retry_while_down,
            history=resources.history,
            memory=WorkingMemory(resources.memory, resources.database, turn, self._retry_while_down),
            emitter=run.emitter,
            values=RecordedValues(turn, resources.database, self._retry_while_down, in_thread=not handler.is_async),
            children=Children(turn, resources.database, self._retry_while_down, self._child_intake),
        )
        attempt = Attempt(handler, turn_for_handler(turn, run.span), context, self._threads, run.span)
        # The lease is renewed until deadline and grace are over, plus one lease, and then no longer, whatever the handler does.
        reach = timeout + grace + self._settings.lease_seconds
        run.begin(turn, attempt.stop, time.monotonic() + reach)
        if run.turns == 1 and turn.attempt == 1 and run.message is not None:
            # The later turns of a session run waited for their own session, and one with a head start has left the queue before.
            self.queue_latency.note(turn.queue_latency_seconds, time.monotonic())
        self._attempts[attempt] = time.monotonic()
        if self._handing_back:
            attempt.stop(StopReason.SHUTDOWN)
        outcome: Outcome | None = None
        try:
            outcome = self._broken_handler.judge(turn, await self._run_in_slot(attempt, context, run, timeout))
            return outcome
        finally:
            del self._attempts[attempt]
            # A turn that is handed back because no slot was free is due at once. This run must not claim it again.
            run.handler_ended(attempt.left_behind, may_claim=outcome != Stopped(StopReason.NO_SLOT))

    async def _run_in_slot(self, attempt: Attempt, context: TurnContext, run: SessionRun, timeout: float) -> Outcome:
        slots = self._slots
        if not slots.take():
            since = time.monotonic()
            has_slot = await self._wait_for_slot(attempt)
            context.start_clock(timeout)
            run.entry.renew_until += time.monotonic() - since
            if not has_slot:
                return attempt.not_begun(StopReason.NO_SLOT)
        began = time.monotonic()
        try:
            return await attempt.run(timeout, self._settings.cancel_grace_seconds)
        finally:
            if attempt.left_behind is not None:
                attempt.left_behind.add_done_callback(lambda _: slots.give_back())
            else:
                # A session run that goes on still counts as a turn in hand, so only its first turn counts for the pace.
                slots.give_back(time.monotonic() - began if run.turns == 1 else math.inf)

    async def _wait_for_slot(self, attempt: Attempt) -> bool:
        slots = self._slots
        place = slots.stand_in_line()
        try:
            await attempt.wait_for(place, MOST_WAIT_SECONDS / 2)
            # Two halves: after the event loop was blocked, the first timeout fires before ended handlers can release their slots.
            if not place.done():
                await attempt.wait_for(place, MOST_WAIT_SECONDS / 2)
        except BaseException:
            if slots.leave(place):
                # Cancelled at the moment when the slot was assigned.
                slots.give_back()
            raise
        if not slots.leave(place):
            return False
        if not self._may_begin():
            # A stopping or paused worker begins no more handlers. The next one in the line takes the same path.
            slots.give_back()
            return False
        return True
