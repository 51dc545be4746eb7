"""The dependencies of a processor: connections, session lock, heartbeat, the user's handler, and the stop signals."""

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
    """Created and closed by `worker.app`, or for each invocation by `worker.aws_lambda.invocation`."""

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
    """Whether the queue is a FIFO queue, by its address."""
    threads: Executor
    slots: Slots
    is_full: Callable[[], bool]
    """Whether at least as many turns are in work as there are slots."""
    nudge_relay: Callable[[], None]
    stopping: asyncio.Event
    """When set, no more turns are begun."""
    given_up: asyncio.Event
    """When set, an outage of the database is no longer waited for."""
    recovers: bool = False
    """Whether this process looks for lost turns by itself (`worker.recovery`): then their messages may be deleted."""
    message_stays: Callable[[ReceivedMessage], None] = lambda _: None
    """Called for each message that must stay in the queue: a caller that deletes processed messages must not delete it."""
    longest_attempt_seconds: float = math.inf
    """The upper bound of every attempt's timeout, for a process that ends at a known time."""
