"""Composes what processes turns: heartbeat, slots, threads and processor. For a worker process, or one Lambda invocation."""

import asyncio
import math
import os
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial

from turnstile.limits.fleet_limits import WaitingSession
from turnstile.statements.claim import ClaimTerms
from turnstile.statements.worker_registry import WorkerRecord
from turnstile.streaming.cancel_hints import listen
from turnstile.telemetry.metrics import (
    ATTEMPT_LONGEST,
    EVENT_LOOP_BLOCKED,
    HEARTBEAT_LATENESS,
    LEASES_LOST,
    LOCK_LONGEST,
    MESSAGES_MALFORMED,
    SLOTS,
    SLOTS_BUSY,
    TAKEOVERS,
)
from turnstile.worker.attempt_effects import HistoryAppend, RelayNudge, StreamEnd
from turnstile.worker.attempt_observer import AttemptObserver, AttemptObservers
from turnstile.worker.attempt_traces import AttemptTraces
from turnstile.worker.broken_handler import BrokenHandlerWatch
from turnstile.worker.claiming import Claimer
from turnstile.worker.crash_isolation import Quarantine
from turnstile.worker.database_retry import retry_while_down
from turnstile.worker.handler_run import HandlerRunner
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.held_locks import longest_hold
from turnstile.worker.in_own_thread import in_own_thread
from turnstile.worker.lifecycle.blocked_loop import BlockedLoopWatch
from turnstile.worker.lifecycle.shutdown import Shutdown
from turnstile.worker.lifecycle.watchdog import Watchdog
from turnstile.worker.limiting.held_places import HeldPlaces
from turnstile.worker.limiting.limited_claims import LimitedClaims
from turnstile.worker.parent_waking import ParentWaking
from turnstile.worker.processor import Processor
from turnstile.worker.queue_pause import QueuePause
from turnstile.worker.received_message import Delivery
from turnstile.worker.resources import Resources
from turnstile.worker.settling import Settler
from turnstile.worker.slots.slots import Slots
from turnstile.worker.slots.tenant_admission import TenantCap
from turnstile.worker.slots.tenant_fairness import TenantSlots
from turnstile.worker.turn_log import TurnLog
from turnstile.worker.turns_in_flight import TurnsInFlight


def make_processor(
    resources: Resources,
    heartbeat: Heartbeat,
    slots: Slots,
    threads: Executor,
    *,
    is_full: Callable[[], bool],
    nudge_relay: Callable[[], None],
    stopping: asyncio.Event,
    given_up: asyncio.Event,
    pause: QueuePause,
    broken_handler: BrokenHandlerWatch,
    takes_over: bool = False,
    limits: LimitedClaims | None = None,
    longest_attempt_seconds: float = math.inf,
) -> Processor:
    """The processor and its parts.

    `takes_over`: whether this process looks for lost turns by itself (`worker.takeover`). `longest_attempt_seconds` bounds every
    attempt's timeout.
    """
    settings, database, handler = resources.settings, resources.database, resources.handler
    queue = settings.find_queue(settings.queue)
    retrying = partial(retry_while_down, given_up=given_up)

    def may_begin() -> bool:
        return not (stopping.is_set() or pause.is_on)

    terms = ClaimTerms(
        queue=queue.name,
        worker_id=resources.worker_id,
        release=settings.release,
        lease_seconds=settings.lease_seconds,
        max_crashes=queue.max_crashes,
        halt=queue.halts,
        compensates=handler.on_failed is not None,
        compensation_expires_seconds=queue.expires_in_seconds,
    )
    quarantine = Quarantine(terms.max_crashes)
    observers = list(_observers(resources, nudge_relay, halts=terms.halt))
    if limits is not None:
        observers.append(HeldPlaces(limits))
    shares = TenantSlots(settings.tenant_slots, slots.count, several=settings.has_several_tenants)
    return Processor(
        settings=settings,
        queue=resources.address,
        worker_id=resources.worker_id,
        lock=resources.lock,
        heartbeat=heartbeat,
        delivery=Delivery(settings, queue, database, resources.queues, retrying),
        cap=TenantCap(shares, queue.name, database, nudge_relay, retrying, is_full=is_full, turn_away=slots.turn_away),
        claimer=Claimer(database, terms, quarantine, nudge_relay, retrying, takes_over=takes_over, limits=limits),
        runner=HandlerRunner(
            resources, queue, slots, threads, may_begin, retrying, longest_attempt_seconds, broken_handler
        ),
        settler=Settler(settings, handler, database, terms, retrying, claims_apart=limits is not None),
        observer=AttemptObservers(*observers),
        may_begin=may_begin,
    )


def _observers(resources: Resources, nudge_relay: Callable[[], None], *, halts: bool) -> Iterator[AttemptObserver]:
    database = resources.database
    if resources.traces is not None:
        yield AttemptTraces(resources.traces, resources.address.name, database)
    yield TurnLog(halts=halts)
    yield StreamEnd()
    yield HistoryAppend(resources.history)
    yield ParentWaking(database, nudge_relay)
    yield RelayNudge(nudge_relay)


class TurnWork:
    """Create it on the event loop. `start` it before the first turn, and `end` it after the last."""

    def __init__(
        self,
        resources: Resources,
        shutdown: Shutdown,
        *,
        is_full: Callable[[], bool],
        nudge_relay: Callable[[], None],
        deaf_for: Callable[[], float],
        takes_over: bool = False,
        begin_called: Callable[[WaitingSession], bool] = lambda _: False,
        begins_paused: bool = False,
        longest_attempt_seconds: float = math.inf,
    ) -> None:
        """`begin_called`: begins a session for which a limit keeps a place, or returns False.
        `deaf_for`: for how long no receive has returned, in seconds. The heartbeat's thread calls it.
        `begins_paused`: see `QueuePause`."""
        loop = asyncio.get_running_loop()
        settings = resources.settings
        limits = LimitedClaims.open(
            settings, resources.redis.lock, resources.database, begin_called=begin_called, nudge_relay=nudge_relay
        )
        self._resources = resources
        self._limits = limits
        self._shutdown = shutdown
        self._deaf_for = deaf_for
        self.in_flight = TurnsInFlight()
        self.slots = Slots(settings.concurrency)
        self.pause = QueuePause(begins_paused=begins_paused)
        self.broken_handler = BrokenHandlerWatch(self.pause)
        self.watchdog = Watchdog(loop, settings.watchdog_seconds)
        self._blocked_loop = BlockedLoopWatch(loop, resources.address.name)
        self.heartbeat = Heartbeat(
            settings,
            resources.queues,
            resources.address,
            loop.call_soon_threadsafe,
            self._describe,
            self.watchdog.look,
            self.pause.set,
            None if limits is None else limits.note,
        )
        self._threads = ThreadPoolExecutor(settings.concurrency, "handler")
        self.processor = make_processor(
            resources,
            self.heartbeat,
            self.slots,
            self._threads,
            is_full=is_full,
            nudge_relay=nudge_relay,
            stopping=shutdown.stopping,
            given_up=shutdown.given_up,
            pause=self.pause,
            broken_handler=self.broken_handler,
            takes_over=takes_over,
            limits=limits,
            longest_attempt_seconds=longest_attempt_seconds,
        )
        self._cancel_signals: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Starts the heartbeat, the watch for a blocked loop, and a task that listens for cancel signals; returns the task."""
        self.heartbeat.start()
        self._begin_metrics()
        self._blocked_loop.start()
        listening = listen(self._resources.settings, self._resources.redis.lock, self.heartbeat.nudge)
        self._cancel_signals = asyncio.create_task(listening, name="cancel signals")
        return self._cancel_signals

    def starved_for(self) -> float:
        """How long Postgres has answered the heartbeat but no other call of this process, in seconds. For any
        thread."""
        return self.heartbeat.answered_after(time.monotonic() - self._resources.database.unanswered_for())

    def _begin_metrics(self) -> None:
        queue = self._resources.address.name
        # What an alert counts: Prometheus sees no increase in a series that begins with its first event.
        for counter in (MESSAGES_MALFORMED, TAKEOVERS, LEASES_LOST, EVENT_LOOP_BLOCKED):
            counter.add(0, queue)
        SLOTS.watch(lambda: self.slots.count, queue)
        SLOTS_BUSY.watch(lambda: self.slots.busy, queue)
        ATTEMPT_LONGEST.watch(lambda: self.processor.runner.longest_seconds(time.monotonic()), queue)
        LOCK_LONGEST.watch(self._longest_hold, queue)
        HEARTBEAT_LATENESS.watch(lambda: self.heartbeat.evidence.overdue_seconds(time.monotonic()), queue)

    def _longest_hold(self) -> float:
        return longest_hold(self.heartbeat.entries(), time.monotonic(), self._resources.settings.lease_seconds)

    async def end(self, most_seconds: float) -> None:
        """Ends the heartbeat; handler threads that still run are left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._blocked_loop.stop()
        if self._limits is not None:
            await self._limits.limiter.finish()
        if self._cancel_signals is not None:
            self._cancel_signals.cancel()
            await in_own_thread(self.heartbeat.stop, most_seconds)

    def _describe(self) -> WorkerRecord:
        return WorkerRecord(
            worker_id=self._resources.worker_id,
            queue=self._resources.address.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            release=self._resources.settings.release,
            slots=self.slots.count,
            # What is prefetched has no slot yet.
            busy=min(self.slots.count, len(self.in_flight)),
            queue_latency_seconds=self.processor.runner.queue_latency.seconds(time.monotonic()),
            draining=self._shutdown.stopping.is_set(),
            deaf_for_seconds=self._deaf_for(),
            blocked_for_seconds=self._blocked_loop.blocked_for(),
            blocked_by=self._blocked_loop.blocked_by(),
            starved_for_seconds=self.starved_for(),
            broken_by=self.broken_handler.error_class,
            lease_seconds=self._resources.settings.lease_seconds,
        )
