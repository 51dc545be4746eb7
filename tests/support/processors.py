"""Processors as the worker composes them, for tests of the way of one message."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID, uuid4

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.limits.fleet_limits import WaitingSession
from turnstile.memory.history import History
from turnstile.memory.item_cache import ItemCache
from turnstile.process.redis_clients import RedisClients, connect_memory
from turnstile.streaming.stream import Append, Appended
from turnstile.telemetry.tracing import Traces
from turnstile.turn.envelope import OutgoingMessage, QueueAddress, ReceivedMessage
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.broken_handler import BrokenHandlerWatch
from turnstile.worker.composition import make_processor
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.limiting.limited_claims import LimitedClaims
from turnstile.worker.processor import Processor
from turnstile.worker.queue_pause import QueuePause
from turnstile.worker.resources import Resources
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots

ECHO = Handler(lambda turn, _: turn.input)


class Noting:
    """Queues that note what a processor does with its messages."""

    def __init__(self) -> None:
        self.deleted: list[ReceivedMessage] = []
        self.sent: list[OutgoingMessage] = []
        self.dead: list[tuple[ReceivedMessage, str]] = []

    async def dead_letter_malformed(self, _: str, message: ReceivedMessage, reason: str) -> None:
        self.dead.append((message, reason))

    async def delete(self, _: str, messages: Sequence[ReceivedMessage]) -> None:
        self.deleted += messages

    async def send(self, _: str, messages: Sequence[OutgoingMessage]) -> None:
        self.sent += messages


class Heart:
    """A heartbeat that keeps nothing alive."""

    def __init__(self, taken: list[HeartbeatEntry]) -> None:
        self.take = taken.append

    def drop(self, _: HeartbeatEntry) -> None:
        return


class Deaf:
    """A Redis for events that is away."""

    def append(self, _: Append) -> "asyncio.Future[Appended]":
        answered: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        answered.set_result(Appended.AWAY)
        return answered


@contextmanager
def processing(
    settings: Settings,
    database: Database,
    lock: SessionLock,
    worker_id: str,
    handler: Handler = ECHO,
    emitters: Emitters | None = None,
    queues: Any = None,
    fifo: bool = False,
    slots: Slots | None = None,
    taken: list[HeartbeatEntry] | None = None,
    stopping: asyncio.Event | None = None,
    nudge_relay: Callable[[], None] = lambda: None,
    takes_over: bool = False,
    pause: QueuePause | None = None,
    redis: RedisClients | None = None,
    begin_called: Callable[[WaitingSession], bool] = lambda _: False,
    traces: Traces = None,
) -> Iterator[Processor]:
    """A processor without a heartbeat, whose handler answers at once. What the heartbeat would keep alive is added to `taken`.

    `redis`: for settings with limits.
    """
    kept = [] if taken is None else taken
    memory = connect_memory(settings)
    resources = Resources(
        settings=settings,
        handler=handler,
        worker_id=worker_id,
        database=database,
        queues=queues or cast("Any", Noting()),
        address=QueueAddress(settings.queue, "turns.fifo" if fifo else "turns", "dlq", 4.0),
        redis=redis or cast("Any", None),
        lock=lock,
        history=History(settings, database, memory),
        memory=ItemCache(settings, memory, contents=database.contents),
        memory_watch=cast("Any", None),
        emitters=emitters or Emitters(settings, cast("Any", Deaf())),
        traces=traces,
    )
    with ThreadPoolExecutor(1) as threads:
        yield make_processor(
            resources,
            cast("Any", Heart(kept)),
            slots or Slots(64),
            threads,
            is_full=lambda: False,
            nudge_relay=nudge_relay,
            stopping=stopping or asyncio.Event(),
            given_up=asyncio.Event(),
            pause=(paused := pause or QueuePause()),
            broken_handler=BrokenHandlerWatch(paused),
            takes_over=takes_over,
            limits=None
            if redis is None
            else LimitedClaims.open(settings, redis.lock, database, begin_called=begin_called, nudge_relay=nudge_relay),
        )


def message_about(turn_id: UUID, session_id: str = "s", tenant_id: str = "t") -> ReceivedMessage:
    return ReceivedMessage(uuid4().hex, WakeUp(tenant_id, session_id, turn_id).encode(), "handle", 1, {}, False)
