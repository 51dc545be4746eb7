"""The heartbeat: one OS thread per process that renews the leases, session locks and messages of the process.

It has an event loop and connections of its own, because a handler may block the worker's loop for longer than a lease. Every
third of the lease, in batches:

1. It renews the rows' leases; the response also carries cancel requests. It does so without any running turn too: whether
   renewals work is the evidence by which turns are marked as lost (`relay.renewal_evidence`).
2. It extends the locks of sessions whose row was ours within the last lease: a worker without Postgres keeps no session locked.
3. It keeps the places that running turns have taken of the limits.
4. It extends the messages' visibility.

A slow Redis, a slow name resolution or a slow SQS must not delay a lease. While such a call is under way, beats skip its part.
Between two beats it renews single rows: after a hint that their turns may have a cancel request, and every second while another
transaction has them locked. Until they are renewed, the worker announces that it holds them, so that nobody takes them for lost.

A refused row renewal stops a handler; a lost lock or an outage does not. An expired lease that no other worker has taken is
renewed when the database is back. A turn past its deadline and grace is not renewed, even if its handler ignores its
cancellation: other workers may take it over. The heartbeat goes on while a shutdown drains.
"""

import asyncio
import math
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from uuid import UUID

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.table_version import READ_VERSION
from turnstile.backends.sqs.sqs_client import CONNECT_SECONDS
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, DatabaseUnfitError
from turnstile.limits.fleet_limits import FleetLimits
from turnstile.message_queue import EXTEND_SECONDS, MessageQueues
from turnstile.process.redis_clients import connect_lock
from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.statements.limit_overrides import FleetState, read_fleet_state
from turnstile.statements.paused_queues import read_paused_queues
from turnstile.statements.renew_lease import Renewal, renew
from turnstile.statements.worker_registry import WorkerRecord, announce, withdraw
from turnstile.telemetry.own_log import log
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.envelope import QueueAddress, ReceivedMessage
from turnstile.worker.attempt.outcome import StopReason
from turnstile.worker.background_call import BackgroundCall
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.held_locks import extended_locks, report_long_holds
from turnstile.worker.limiting.kept_places import keep_places, placed_turns
from turnstile.worker.session_lock import Extension, SessionLock

PATIENCE_SECONDS = 2.0
"""The shortest timeout for Postgres, even if beats are closer together: otherwise a busy server would count as away. Also the
wait for a connection, because the pool tries for no longer."""
AGAIN_SECONDS = 1.0
"""The pause after a beat without Postgres, and before locked rows are asked for again."""
LATE_SECONDS = CONNECT_SECONDS + EXTEND_SECONDS
"""The longest wait for a call to Redis or SQS that is under way."""


class Heartbeat:
    """Start it once per process. `call_soon` runs a function on the worker's event loop from this thread."""

    # Its own connections, on its own event loop.
    _database: Database
    _lock: SessionLock
    _limits: FleetLimits
    _queues: MessageQueues

    def __init__(
        self,
        settings: Settings,
        queues: MessageQueues,
        address: QueueAddress,
        call_soon: Callable[..., object],
        describe: Callable[[], WorkerRecord],
        beat_on: Callable[[], None],
        note_paused: Callable[[bool], None],
        note_limits: Callable[[FleetState], None] | None = None,
    ) -> None:
        """`note_limits`: is told with each beat what the limits depend on. None: there are no limits."""
        self._settings = settings
        self._queues_of_worker = queues
        self._address = address
        self._call_soon = call_soon
        self._describe = describe
        self._beat_on = beat_on
        self._note_paused = note_paused
        self._note_limits = note_limits
        self._entries: dict[int, HeartbeatEntry] = {}
        self._nudged: set[UUID] = set()
        self._unrenewed: set[UUID] = set()
        """Our turns that the last renewal has skipped, because another transaction had locked their rows."""
        self._guard = threading.Lock()
        self._stopping = False
        self._wanted_at = 0.0
        """When a beat was last asked for, in monotonic seconds."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._roused = asyncio.Event()
        """Set when the thread must act before the next beat: renew nudged rows, beat, or stop."""
        self.evidence = RenewalEvidence(settings.lease_seconds, settings.heartbeat)
        self._answered_since, self._answered_at = math.inf, 0.0
        self._locks = BackgroundCall("locks")
        self._places = BackgroundCall("places")
        self._messages = BackgroundCall("messages")
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve()), name="heartbeat", daemon=True)

    # --- from the worker's event loop

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Ends the thread, which withdraws the worker from the registry. Blocks; may leave a call to SQS or Redis unfinished."""
        self._stopping = True
        self._rouse()
        self._thread.join(timeout_seconds)

    def take(self, entry: HeartbeatEntry) -> None:
        with self._guard:
            self._entries[id(entry)] = entry

    def drop(self, entry: HeartbeatEntry) -> None:
        with self._guard:
            self._entries.pop(id(entry), None)

    def entries(self) -> list[HeartbeatEntry]:
        """What is entry alive now. For any thread."""
        with self._guard:
            return list(self._entries.values())

    def nudge(self, turn_id: UUID) -> None:
        """Renews this turn's row now, if the turn runs in this process: the row may have a cancel request."""
        with self._guard:
            if all(entry.turn is None or entry.turn.id != turn_id for entry in self._entries.values()):
                return
            self._nudged.add(turn_id)
        self._rouse()

    def beat_now(self) -> None:
        """Makes the next beat come at once: it announces that the worker stops."""
        self._wanted_at = time.monotonic()
        self._rouse()

    def answered_after(self, moment: float) -> float:
        """Seconds from `moment` (monotonic) to the last beat, of those in which Postgres answered each beat. For any thread."""
        return max(0.0, self._answered_at - max(self._answered_since, moment))

    def _rouse(self) -> None:
        # RuntimeError: the thread has ended and closed its loop.
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._roused.set)

    # --- on the thread

    async def serve(self) -> None:
        """Beats until `stop`, then withdraws the worker."""
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            await self._connect(stack)
            # The first beat comes at once: it announces the worker, and until then the queue looks unserved.
            next_beat = next_look = begun_at = time.monotonic()
            soon = min(AGAIN_SECONDS, self._settings.heartbeat)
            while not self._stopping:
                await self._wait_until(min(next_beat, next_look))
                if self._stopping:
                    break
                looks = self._roused.is_set() or time.monotonic() >= next_look
                self._roused.clear()
                if looks and time.monotonic() < next_beat and self._wanted_at <= begun_at:
                    await self._try(self._look)
                else:
                    begun_at = time.monotonic()
                    went_well = await self._try(self._beat)
                    self._answered_at = time.monotonic()
                    self._answered_since = min(self._answered_since, self._answered_at) if went_well else math.inf
                    next_beat = time.monotonic() + (self._settings.heartbeat if went_well else soon)
                next_look = time.monotonic() + soon if self._unrenewed else math.inf
            await self._withdraw()
            await self._messages.finish(LATE_SECONDS)
            await self._locks.finish(LATE_SECONDS)
            await self._places.finish(LATE_SECONDS)

    async def _connect(self, stack: AsyncExitStack) -> None:
        settings = self._settings
        # Locks, messages and the watchdog wait for the database call: a silent server must not delay more than the next beat.
        database = Database(
            settings.database, "turnstile-heartbeat", size=1, pinned=True, first=READ_VERSION,
            wait_seconds=PATIENCE_SECONDS, patience_seconds=max(PATIENCE_SECONDS, settings.heartbeat),
        )  # fmt: skip
        redis = connect_lock(settings)
        stack.push_async_callback(redis.close)
        self._database = await stack.enter_async_context(database)
        self._lock = SessionLock(settings, redis)
        self._limits = FleetLimits(redis, settings.redis_prefix, settings.lease_seconds)
        self._queues = self._queues_of_worker.for_another_loop()
        stack.push_async_callback(self._queues.close)

    async def _wait_until(self, next_beat: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.01, next_beat - time.monotonic())):
                await self._roused.wait()

    async def _try(self, renewals: Callable[[], Awaitable[bool]]) -> bool:
        try:
            self._beat_on()
            return await renewals()
        except Exception:
            # A bug of ours. If it ended this thread, every turn of the process would silently lose its lease.
            log.exception("heartbeat.failed")
            return False

    async def _look(self) -> bool:
        """Renews the rows named by hints, which a client can publish, and the skipped ones: never all rows."""
        with self._guard:
            wanted, self._nudged = self._nudged | self._unrenewed, set()
            entries = [entry for entry in self._entries.values() if entry.turn is not None and entry.turn.id in wanted]
        return await self._renew_rows(entries)

    async def _beat(self) -> bool:
        """One beat; False if the database was away: the next beat then comes sooner."""
        entries = self.entries()
        renewed = await self._renew_rows(entries)
        now = time.monotonic()
        if locked := extended_locks(entries, now, self._settings.lease_seconds):
            self._locks.begin(lambda: self._extend_locks(locked))
            report_long_holds(locked, now, self._settings.session_run_seconds)
        if placed := placed_turns(entries):
            self._places.begin(lambda: keep_places(self._limits, placed))
        if received := [entry for entry in entries if entry.message]:
            self._messages.begin(lambda: self._queues.extend(self._address, self._still_kept(received)))
        return renewed

    async def _extend_locks(self, entries: list[HeartbeatEntry]) -> None:
        locked = {entry.lock: entry for entry in entries if entry.lock is not None and entry.keeps_lock}
        extensions = await self._lock.extend(list(locked), lambda one: locked[one].keeps_lock)
        for (one, entry), extension in zip(locked.items(), extensions, strict=True):
            if extension in (Extension.RETAKEN, Extension.LOST):
                entry.look_again = True
                # Read once: the worker's thread sets it to None.
                turn = entry.turn
                log.info("heartbeat.lock_lost", key=one.key, now=extension.value, **(turn.ids if turn else {}))

    def _still_kept(self, entries: list[HeartbeatEntry]) -> Iterator[ReceivedMessage]:
        # Evaluated lazily, batch by batch: extending a message that was given back meanwhile would hide it from all workers.
        for entry in entries:
            with self._guard:
                message = entry.message if id(entry) in self._entries and not self._stopping else None
            if message is not None:
                yield message

    async def _renew_rows(self, entries: list[HeartbeatEntry]) -> bool:
        asked = time.monotonic()
        wanted = {
            (turn.id, turn.fence): entry
            for entry in entries
            if (turn := entry.turn) is not None and asked < entry.renew_until
        }
        try:
            renewals = await renew(self._database, list(wanted), self._settings.lease_seconds)
        except Exception as error:
            self.evidence.failed()
            if not isinstance(error, DatabaseUnavailableError):
                raise
            if not isinstance(error, DatabaseUnfitError):  # The pool has said that once.
                log.warning("heartbeat.database_away", error=str(error), turns=len(wanted))
            return False
        for renewal in renewals.rows:
            self._heed(wanted[renewal.id, renewal.fence], renewal, asked)
        self._unrenewed = {one.id for one in renewals.rows if one.ours and not one.renewed}
        if not self._unrenewed:
            self.evidence.worked(renewals.at, asked, time.monotonic())
        # After the renewals, which neither may delay. Errors are only logged: locks and messages must be extended all the same.
        went_well = True
        try:
            await announce(self._database, replace(self._describe(), unrenewed=list(self._unrenewed)))
        except (DatabaseUnavailableError, psycopg.Error) as error:
            log.warning("heartbeat.not_announced", error=str(error))
            went_well = False
        try:
            paused = self._address.name in await read_paused_queues(self._database)
            self._call_soon(self._note_paused, paused)
            if self._note_limits is not None:
                self._call_soon(self._note_limits, await read_fleet_state(self._database))
        except (DatabaseUnavailableError, psycopg.Error) as error:
            log.warning("heartbeat.pause_not_read", error=str(error))
            went_well = False
        return went_well

    def _heed(self, entry: HeartbeatEntry, renewal: Renewal, beat_at: float) -> None:
        turn, stop = entry.turn, entry.stop
        if turn is None or turn.fence != renewal.fence:
            # The session run has settled the turn meanwhile, so the renewal was refused.
            return
        if renewal.ours:
            entry.ours_at = beat_at
        if stop is None:
            # Its settle is under way, and decides by itself whether the claim was superseded.
            return
        if not renewal.ours:
            log.info("heartbeat.superseded", **turn.ids, fence=turn.fence)
            self._call_soon(stop, StopReason.SUPERSEDED)
        elif renewal.cancel_requested:
            self._call_soon(stop, StopReason.CANCELED, CancelReason.read(renewal.cancel_reason))

    async def _withdraw(self) -> None:
        try:
            await withdraw(self._database, self._describe().worker_id)
        except (DatabaseUnavailableError, psycopg.Error) as error:
            log.info("heartbeat.not_withdrawn", error=f"{type(error).__name__}: {error}")
