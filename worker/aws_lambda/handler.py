"""The worker as a Lambda function behind an SQS event source (G22): `turnstile.worker.aws_lambda.handler.handle`.

One event loop, settings and connections for the life of a container; all else is one invocation's
(`worker.aws_lambda.invocation`).
What is answered is what ReportBatchItemFailures asks for. Messages are also deleted by the processor itself, as soon as rule 4
allows: on a FIFO queue a message that stayed in flight until the batch's slowest turn has ended would hold up its session.
"""

import os
import secrets
import socket
import time
from contextlib import AsyncExitStack
from typing import Any, Protocol

import structlog

from turnstile.backends.postgres.database import Database
from turnstile.config import logs
from turnstile.config.load_settings import load
from turnstile.config.redis_clients import RedisClients
from turnstile.config.secret_settings import read_secrets
from turnstile.config.settings import Settings
from turnstile.config.unknown_variables import describe_unknown_variables
from turnstile.handlers.handler import Handler
from turnstile.memory.history import History
from turnstile.memory.item_cache import ItemCache
from turnstile.message_queue import MessageQueues
from turnstile.statements.advance_fences import ADVANCE
from turnstile.streaming.stream import EventWriter
from turnstile.worker.attempt.emitters import Emitters
from turnstile.worker.attempt.system_exit_guard import outlive_exits
from turnstile.worker.aws_lambda.event import read_event, report
from turnstile.worker.aws_lambda.invocation import Container, Invocation, longest_attempt
from turnstile.worker.process import handler_loading
from turnstile.worker.process.event_loop import new_event_loop
from turnstile.worker.session_lock import SessionLock

DATABASE_CONNECTIONS = 2
"""Of each container, and one of the heartbeat: there may be as many containers as the function's concurrency (G20)."""

LONG_REST_SECONDS = 60.0
"""After so long without an invocation connections are not trusted any more: what stands between may have forgotten them
without a word, and a first call that fails would count as an outage, which forbids takeovers for a lease."""

log = structlog.get_logger("turnstile.lambda")


class LambdaContext(Protocol):
    """What is used of Lambda's own."""

    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Until Lambda ends the process."""
        ...


class Function:
    """The function of one container. Only one event at a time, as Lambda has it."""

    def __init__(self, settings: Settings, handler: Handler) -> None:
        # A frozen container is the same process after the thaw, so this is its name until it is ended.
        self.worker_id = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        logs.identify(worker_id=self.worker_id)
        self._settings = settings
        self._handler = handler
        self._loop = new_event_loop()
        outlive_exits(self._loop)
        self._queues = MessageQueues(settings)
        self._stack: AsyncExitStack | None = None
        self._container: Container | None = None
        self._rested_since = 0.0
        self._whole_seconds = 0.0
        """The most that an invocation had: the function's own time-out, which Lambda tells nowhere."""

    def answer(self, event: Any, request_id: str, seconds: float) -> dict[str, Any]:
        """One invocation. Raises EventRefusedError, QueueUnavailableError; then every message comes back."""
        ends_at = time.monotonic() + seconds
        return self._loop.run_until_complete(self._answer(event, request_id, ends_at, seconds))

    def close(self) -> None:
        """Lets go of everything. Lambda never asks for it: it ends containers without a word."""
        self._loop.run_until_complete(self._disconnect())
        self._loop.run_until_complete(self._queues.close())
        self._loop.close()

    async def _answer(self, event: Any, request_id: str, ends_at: float, seconds: float) -> dict[str, Any]:
        logs.bind(request_id=request_id)
        address = await self._queues.find(self._settings.queue)
        deliveries = read_event(event, address)
        # By the wall clock: the monotonic one may have stood still while the container was frozen.
        if time.time() - self._rested_since > LONG_REST_SECONDS:
            await self._disconnect()
            await self._queues.forget_connections()
        container = self._container or await self._connect()
        if seconds > self._whole_seconds:
            self._whole_seconds = seconds
            self._compare_times()
        try:
            kept = await Invocation(container, ends_at, self._whole_seconds).answer(deliveries)
        finally:
            self._rested_since = time.time()
        log.info("lambda.answered", messages=len(deliveries), reported=len(kept))
        return report(kept)

    def _compare_times(self) -> None:
        longest = longest_attempt(self._settings, self._whole_seconds)
        timeout = self._settings.find_queue(self._settings.queue).timeout_seconds
        if timeout > longest:
            log.warning("lambda.attempts_are_cut", timeout_seconds=timeout, longest_seconds=round(longest, 1))

    async def _connect(self) -> Container:
        settings = self._settings
        async with AsyncExitStack() as stack:
            database = Database(
                settings.database_url, "turnstile-lambda", size=DATABASE_CONNECTIONS, pinned=True, first=ADVANCE
            )
            await stack.enter_async_context(database)
            redis = RedisClients.open(settings)
            stack.push_async_callback(redis.close)
            container = Container(
                settings=settings,
                handler=self._handler,
                worker_id=self.worker_id,
                queues=self._queues,
                address=await self._queues.find(settings.queue),
                database=database,
                redis=redis,
                lock=SessionLock(settings, redis.lock),
                history=History(settings, database, redis.memory),
                memory=ItemCache(settings, redis.memory),
                emitters=Emitters(settings, EventWriter(settings, redis.memory)),
            )
            stack.callback(container.history.close)
            stack.push_async_callback(container.emitters.close)
            self._stack = stack.pop_all()
            self._container = container
        return container

    async def _disconnect(self) -> None:
        stack, self._stack, self._container = self._stack, None, None
        if stack is not None:
            await stack.aclose()


_function: Function | None = None
"""Lambda imports the module once in a container, and calls `handle` for each event."""


def handle(event: Any, context: LambdaContext) -> dict[str, Any]:
    """What Lambda calls. Raises SettingsError, EventRefusedError, QueueUnavailableError: then every message comes back."""
    global _function
    if _function is None:
        settings = load()
        settings = load(**read_secrets(settings)) if settings.secrets else settings
        logs.configure(settings)
        if (unknown := describe_unknown_variables()) is not None:
            log.warning("settings.unknown_variables", variables=unknown)
        handler = handler_loading.load(settings.handler or settings.find_queue(settings.queue).handler)
        _function = Function(settings, handler)
    return _function.answer(event, context.aws_request_id, context.get_remaining_time_in_millis() / 1000)
