"""What a worker process opens once, for all its turns: connections, caches and the user's handler."""

import os
import secrets
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.handler import Handler
from turnstile.memory.history import History
from turnstile.memory.item_cache import ItemCache
from turnstile.memory.watch import MemoryWatch
from turnstile.message_queue import MessageQueues
from turnstile.process.redis_clients import RedisClients
from turnstile.streaming.stream import EventWriter
from turnstile.telemetry.tracing import Traces
from turnstile.turn.envelope import QueueAddress
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.session_lock import SessionLock


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Made by `open`, and closed by the stack that was given to it."""

    settings: Settings
    handler: Handler
    worker_id: str
    database: Database
    queues: MessageQueues
    address: QueueAddress
    """The queue that the worker serves."""
    redis: RedisClients
    lock: SessionLock
    history: History
    memory: ItemCache
    memory_watch: MemoryWatch
    emitters: Emitters
    traces: Traces

    @classmethod
    def open(
        cls,
        stack: AsyncExitStack,
        settings: Settings,
        handler: Handler,
        worker_id: str,
        database: Database,
        queues: MessageQueues,
        address: QueueAddress,
        traces: Traces,
    ) -> "Resources":
        """Opens Redis and all that uses it; `stack` closes them. Database and queues stay the caller's."""
        redis = RedisClients.open(settings)
        stack.push_async_callback(redis.close)
        watch = MemoryWatch(redis.memory)
        history = History(settings, database, redis.memory)
        emitters = Emitters(settings, EventWriter(settings, redis.memory, database.contents))
        stack.push_async_callback(emitters.close)
        return cls(
            settings=settings,
            handler=handler,
            worker_id=worker_id,
            database=database,
            queues=queues,
            address=address,
            redis=redis,
            lock=SessionLock(settings, redis.lock),
            history=history,
            memory=ItemCache(settings, redis.memory, lambda: watch.pressure, database.contents),
            memory_watch=watch,
            emitters=emitters,
            traces=traces,
        )


def name_worker() -> str:
    """A worker id. Random at every start: a restarted pod keeps its host name, and its crash would go unnoticed."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
