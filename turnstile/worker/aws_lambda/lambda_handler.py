"""The worker as a Lambda function behind an SQS event source: `turnstile.worker.aws_lambda.lambda_handler.handle`.

The event loop, the settings and the connections live as long as the container; everything shorter-lived belongs to one invocation
(`worker.aws_lambda.invocation`). The response has the format of ReportBatchItemFailures. The processor also deletes messages
itself, as soon as rule 4 allows: on a FIFO queue, a message that stays in flight until the batch's slowest turn has ended would
delay its session.
"""

import time
from contextlib import AsyncExitStack
from typing import Any, Protocol

from turnstile.backends.postgres.database import Database
from turnstile.config.config_file import load
from turnstile.config.sealing_keys import read_contents
from turnstile.config.settings import Settings
from turnstile.config.unknown_variables import describe_unknown_variables
from turnstile.handlers.handler import Handler
from turnstile.message_queue import MessageQueues
from turnstile.process import logs
from turnstile.process.core_files import forbid_core_files
from turnstile.statements.advance_fences import ADVANCE
from turnstile.telemetry import tracing
from turnstile.telemetry.own_log import log
from turnstile.turn.envelope import QueueAddress
from turnstile.worker.aws_lambda.invocation import Invocation, longest_attempt
from turnstile.worker.aws_lambda.secret_settings import read_secrets
from turnstile.worker.aws_lambda.sqs_event import read_event, report
from turnstile.worker.lifecycle import handler_loading
from turnstile.worker.lifecycle.event_loop import WorkerLoop
from turnstile.worker.resources import Resources, name_worker

DATABASE_CONNECTIONS = 2
"""Connections of each container; the heartbeat has one more. There may be as many containers as the function's concurrency."""

LONG_REST_SECONDS = 60.0
"""After this long without an invocation, connections are opened again. The network between may have dropped them
silently, and a first call that fails would count as an outage, which forbids takeovers for a lease."""


class LambdaContext(Protocol):
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the process."""
        ...


class Function:
    """The function of one container. Answers one event at a time, as Lambda sends them."""

    def __init__(self, settings: Settings, handler: Handler, traces: tracing.Traces) -> None:
        # One id for the container's life: it is the same process after a freeze and a thaw.
        self.worker_id = name_worker()
        logs.identify(worker_id=self.worker_id)
        # No fair shares: the batch is fixed, and deferring a part of it would let no other tenant in.
        fixed = {"tenant_slots": "all"} if settings.tenant_slots == "fair" else {}
        self._settings = settings.model_copy(update=fixed)
        self._contents = read_contents(settings)
        self._handler = handler
        self._loop = WorkerLoop()
        self._queues = MessageQueues(settings, traces=traces)
        self._traces = traces
        self._stack: AsyncExitStack | None = None
        self._resources: Resources | None = None
        self._rested_since = 0.0
        self._whole_seconds = 0.0
        """The longest time that an invocation had. It stands for the function's timeout, which Lambda does not report."""

    def answer(self, event: Any, request_id: str, seconds: float) -> dict[str, Any]:
        """One invocation. After EventRefusedError or QueueUnavailableError, SQS delivers every message again."""
        ends_at = time.monotonic() + seconds
        try:
            answered: dict[str, Any] = self._loop.run_until_complete(self._answer(event, request_id, ends_at, seconds))
            return answered
        finally:
            # The container may be frozen from here on.
            tracing.flush(self._traces)

    def close(self) -> None:
        """Closes all connections and the loop. Lambda never calls it: it ends containers without notice."""
        self._loop.run_until_complete(self._disconnect())
        self._loop.run_until_complete(self._queues.close())
        self._loop.close()

    async def _answer(self, event: Any, request_id: str, ends_at: float, seconds: float) -> dict[str, Any]:
        logs.bind(request_id=request_id)
        address = await self._queues.find(self._settings.queue)
        records = read_event(event, address)
        # Wall clock: the monotonic clock may stand still while the container is frozen.
        if time.time() - self._rested_since > LONG_REST_SECONDS:
            await self._disconnect()
            await self._queues.forget_connections()
        resources = self._resources or await self._connect(address)
        if seconds > self._whole_seconds:
            self._whole_seconds = seconds
            self._compare_times()
        try:
            kept = await Invocation(resources, ends_at, self._whole_seconds).answer(records)
        finally:
            self._rested_since = time.time()
        log.info("lambda.answered", messages=len(records), reported=len(kept))
        return report(kept)

    def _compare_times(self) -> None:
        longest = longest_attempt(self._settings, self._whole_seconds)
        timeout = self._settings.find_queue(self._settings.queue).timeout_seconds
        if timeout > longest:
            log.warning("lambda.attempts_are_cut", timeout_seconds=timeout, longest_seconds=round(longest, 1))

    async def _connect(self, address: QueueAddress) -> Resources:
        settings = self._settings
        async with AsyncExitStack() as stack:
            database = Database(
                settings.database,
                "turnstile-lambda",
                size=DATABASE_CONNECTIONS,
                pinned=True,
                first=ADVANCE,
                contents=self._contents,
            )
            await stack.enter_async_context(database)
            resources = Resources.open(
                stack, settings, self._handler, self.worker_id, database, self._queues, address, self._traces
            )
            # As in `worker.worker_process`.
            await resources.redis.lock.ping()
            self._stack = stack.pop_all()
        self._resources = resources
        return resources

    async def _disconnect(self) -> None:
        stack, self._stack, self._resources = self._stack, None, None
        if stack is not None:
            await stack.aclose()


_function: Function | None = None
"""One for each container: Lambda imports the module once, and calls `handle` for each event."""


def handle(event: Any, context: LambdaContext) -> dict[str, Any]:
    """Lambda's entry point. After SettingsError, EventRefusedError or QueueUnavailableError, SQS delivers every message again."""
    global _function
    if _function is None:
        forbid_core_files()
        settings = load()
        settings = load(**read_secrets(settings)) if settings.secrets else settings
        logs.configure(settings)
        if (unknown := describe_unknown_variables()) is not None:
            log.warning("settings.unknown_variables", variables=unknown)
        handler = handler_loading.load(settings.handler or settings.find_queue(settings.queue).handler)
        traces = tracing.start("turnstile-lambda", wanted=settings.exports_traces, shared=True)
        _function = Function(settings, handler, traces)
    return _function.answer(event, context.aws_request_id, context.get_remaining_time_in_millis() / 1000)
