"""Heartbeats as the worker makes them, and what they asked for."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.support.factories import make_worker_record
from tests.support.late_sqs import LateSqs
from tests.support.probes import until
from tests.support.process_roles import as_worker
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.worker_registry import WorkerRecord
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import QueueAddress, ReceivedMessage
from turnstile.worker.attempt.outcome import StopReason
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.session_lock import LockedSession


class Beating:
    """A heartbeat as the worker makes it, and what it asked for."""

    def __init__(self, settings: Settings, queues: MessageQueues, address: Any) -> None:
        self.beats = 0
        self.trouble: list[Exception] = []
        self.stops: list[StopReason] = []
        self.cancel_reasons: list[CancelReason | None] = []
        self.paused: list[bool] = []
        self.heartbeat = Heartbeat(
            as_worker(settings),
            queues,
            address,
            asyncio.get_running_loop().call_soon_threadsafe,
            self._describe,
            self._beat_on,
            self.paused.append,
        )
        self._queue = settings.queue

    def keep(
        self, turn: ClaimedTurn, lock: LockedSession | None = None, renew_until: float = math.inf
    ) -> HeartbeatEntry:
        kept = HeartbeatEntry(lock, None)
        kept.begin(turn, self._stop, renew_until)
        self.heartbeat.take(kept)
        return kept

    def _stop(self, reason: StopReason, cancel_reason: CancelReason | None = None) -> None:
        self.stops.append(reason)
        self.cancel_reasons.append(cancel_reason)

    def _beat_on(self) -> None:
        self.beats += 1

    def _describe(self) -> WorkerRecord:
        if self.trouble:
            raise self.trouble.pop()
        return make_worker_record(self._queue, "worker-a", busy=self.beats, queue_latency_seconds=0.5)


@asynccontextmanager
async def beating_against(sqs: LateSqs, settings: Settings) -> AsyncIterator[Beating]:
    """A heartbeat that is begun by the test and ended here."""
    queues = MessageQueues(settings.model_copy(update={"sqs_endpoint_url": sqs.address}))
    made = Beating(settings, queues, QueueAddress(settings.queue, f"{sqs.address}/0/a", f"{sqs.address}/0/d", 60.0))
    try:
        yield made
    finally:
        sqs.may_answer.set()
        await asyncio.to_thread(made.heartbeat.stop, 40.0)
        await queues.close()


def keep_messages(beating: Beating, count: int) -> list[HeartbeatEntry]:
    """Keeps so many messages alive, without turns; each handle has the message's number."""
    made = [HeartbeatEntry(None, ReceivedMessage(str(n), "", f"handle-{n}", 1, {}, False)) for n in range(count)]
    for kept in made:
        beating.heartbeat.take(kept)
    return made


async def lease_of(database: Database) -> Any:
    return (await database.fetch("SELECT lease_until FROM turns", {}))[0]["lease_until"]


async def beats_on(beating: Beating, times: int = 3) -> None:
    """Waits until it has beaten that often from now on: the beat under way may have begun before."""
    enough = beating.beats + times
    await until(lambda: beating.beats >= enough)


def block_loop_until(condition: Callable[[], bool]) -> None:
    """Keeps the event loop's thread to itself, as a careless handler does."""
    deadline = time.monotonic() + 30.0
    while not condition():
        assert time.monotonic() < deadline
