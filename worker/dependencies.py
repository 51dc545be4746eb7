"""What a processor works with: the connections, the lock, the heartbeat, the user's handler, and the signals to stop."""

import asyncio
import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from turnstile.backends.postgres.database import Database
from turnstile.handlers.handler import Handler
from turnstile.memory.history import History
from turnstile.memory.item_cache import ItemCache
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.heartbeat import Heartbeat
from turnstile.worker.session_lock import SessionLock
from turnstile.worker.slots.slots import Slots


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeps:
    """Made and ended by `worker.app`."""

    database: Database
    queues: MessageQueues
    lock: SessionLock
    history: History
    memory: ItemCache
    heartbeat: Heartbeat
    emitters: Emitters
    handler: Handler
    worker_id: str
    fifo: bool
    """The queue's kind, known from the queue."""
    threads: Executor
    slots: Slots
    is_full: Callable[[], bool]
    """Whether as many turns are in hand as there are slots."""
    nudge_relay: Callable[[], None]
    stopping: asyncio.Event
    """Set: no more turns are begun."""
    given_up: asyncio.Event
    """Set: the database is not waited for any longer."""
    recovers: bool = False
    """Whether this process looks for lost turns by itself (`worker.recovery`): their messages may go then."""
    message_stays: Callable[[ReceivedMessage], None] = lambda _: None
    """Told of a message that was left in the queue: whoever deletes what was processed must not delete that."""
    longest_attempt_seconds: float = math.inf
    """What no attempt's timeout may exceed, whoever has set it: in a process that ends at a known time."""
