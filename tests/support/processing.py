"""Processors as the worker makes them, for the tests that look at the way of one message."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID, uuid4

from turnstile.backends.postgres.database import Database
from turnstile.config.redis_clients import connect_memory
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.memory.history import History
from turnstile.memory.item_cache import ItemCache
from turnstile.streaming.stream import Append, Appended
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.message import WakeUp
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.dependencies import WorkerDeps
from turnstile.worker.kept_alive import KeptAlive
from turnstile.worker.processor import Processor
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots

ECHO = Handler(lambda turn, _: turn.input)


class Queues:
    """Forgets what is deleted: no message of these tests was ever sent."""

    async def delete(self, *_: Any) -> None:
        return


class Heart:
    """Beats for nothing."""

    def __init__(self, taken: list[KeptAlive]) -> None:
        self.take = taken.append

    def drop(self, _: KeptAlive) -> None:
        return

    async def finish_extension(self) -> None:
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
    taken: list[KeptAlive] | None = None,
    stopping: asyncio.Event | None = None,
    nudge_relay: Callable[[], None] = lambda: None,
    recovers: bool = False,
) -> Iterator[Processor]:
    """A processor without a heartbeat, whose handler answers at once. What that would keep alive is added to `taken`."""
    kept = [] if taken is None else taken
    memory = connect_memory(settings)
    with ThreadPoolExecutor(1) as threads:
        yield Processor(
            settings,
            WorkerDeps(
                database=database,
                queues=queues or cast("Any", Queues()),
                lock=lock,
                history=History(settings, database, memory),
                memory=ItemCache(settings, memory),
                heartbeat=cast("Any", Heart(kept)),
                handler=handler,
                emitters=emitters or Emitters(settings, cast("Any", Deaf())),
                worker_id=worker_id,
                fifo=fifo,
                threads=threads,
                slots=slots or Slots(64),
                is_full=lambda: False,
                nudge_relay=nudge_relay,
                stopping=stopping or asyncio.Event(),
                given_up=asyncio.Event(),
                recovers=recovers,
            ),
        )


def message_about(turn_id: UUID, session_id: str = "s", tenant_id: str = "t") -> ReceivedMessage:
    """A delivery of the turn's wake-up."""
    return ReceivedMessage(uuid4().hex, WakeUp(tenant_id, session_id, turn_id).encode(), "handle", 1, {}, False)


class Noting:
    """Where messages go that a processor is done with."""

    def __init__(self) -> None:
        self.deleted: list[ReceivedMessage] = []
        self.given_back: list[tuple[ReceivedMessage, float]] = []
        self.sent: list[OutgoingMessage] = []

    async def delete(self, _: str, messages: Sequence[ReceivedMessage]) -> None:
        self.deleted += messages

    async def give_back(self, _: str, messages: Sequence[ReceivedMessage], *, after_seconds: float) -> None:
        self.given_back += [(message, after_seconds) for message in messages]

    async def send(self, _: str, messages: Sequence[OutgoingMessage]) -> None:
        self.sent += messages
