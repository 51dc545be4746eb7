"""Handle: one attempt of the user's function, under a timeout, with a way to stop it from outside.

Whatever the function does, exactly one Outcome comes of it. One that ignores its cancellation is left behind after a
grace: its turn goes on without it (the fence refuses what it may still write), its slot stays taken until it ends.
"""

import asyncio
from collections.abc import Awaitable
from concurrent.futures import Executor
from typing import Any

import structlog

from worker.context import TurnContext
from worker.handler import Handler, Turn
from worker.outcome import Failed, Outcome, Stopped, StopReason, Succeeded, TimedOut, classify
from worker.reply import UnfitReplyError, clean

log = structlog.get_logger("turnstile.attempt")


class HandlerExitedError(Exception):
    """The handler raised SystemExit or KeyboardInterrupt, which would end the process and all its other turns."""


class Attempt:
    """One run of the handler. `stop` may be called from the event loop at any time, more than once: the first counts."""

    def __init__(self, handler: Handler, turn: Turn, context: TurnContext, threads: Executor) -> None:
        self._handler = handler
        self._turn = turn
        self._context = context
        self._threads = threads
        self._stopped: asyncio.Future[StopReason] = asyncio.get_running_loop().create_future()
        self.left_behind: asyncio.Future[Any] | None = None
        """The run that ignored its cancellation, if it did: its slot is not free before it is done."""

    def stop(self, reason: StopReason) -> None:
        """Tells the handler to come to an end."""
        if not self._stopped.done():
            self._stopped.set_result(reason)

    async def run(self, timeout_seconds: float, cancel_grace_seconds: float) -> Outcome:
        """Runs the handler to an outcome. Takes no longer than both durations together, unless the loop is blocked."""
        if self._stopped.done():
            return Stopped(self._stopped.result())
        running = asyncio.ensure_future(self._call())
        await asyncio.wait({running, self._stopped}, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not self._stopped.done() and running.done():
            return self._outcome(running)
        self._context.cancel()
        running.cancel()
        await asyncio.wait({running}, timeout=cancel_grace_seconds)
        if not running.done():
            self.left_behind = running
            self._context.log.warning("attempt.left_behind", grace_seconds=cancel_grace_seconds)
        elif not running.cancelled():
            # Looked at, or asyncio would print it, text and all, when it is forgotten.
            running.exception()
        if not self._stopped.done():
            return TimedOut(timeout_seconds)
        reason = self._stopped.result()
        if reason is StopReason.SHUTDOWN and running.done() and not running.cancelled() and not running.exception():
            # It came to its answer on the way out: handing it back would only throw the answer away.
            return self._outcome(running)
        return Stopped(reason)

    async def _call(self) -> Any:
        try:
            return await self._reply()
        except (SystemExit, KeyboardInterrupt) as error:
            raise HandlerExitedError(f"{type(error).__name__}: {error}") from error

    async def _reply(self) -> Any:
        if self._handler.is_async:
            return await self._handler(self._turn, self._context)
        reply = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._handler, self._turn, self._context
        )
        # A plain function that returns a coroutine, for instance a functools.partial of an async one.
        return await reply if isinstance(reply, Awaitable) else reply

    def _outcome(self, running: asyncio.Future[Any]) -> Outcome:
        if running.cancelled():
            return classify(asyncio.CancelledError("the handler cancelled itself"), self._handler.retry_on)
        error = running.exception()
        if error is None:
            return self._answered(running.result())
        # The traceback is for the developer's log; its text is not, it may quote what the user said.
        self._context.log.info("attempt.raised", error_class=type(error).__name__)
        return classify(error, self._handler.retry_on)

    def _answered(self, reply: Any) -> Outcome:
        try:
            cleaned = clean(reply)
        except UnfitReplyError as error:
            return Failed("unfit_reply", str(error), may_heal=False)
        if cleaned.removed:
            self._context.log.warning("reply.cleaned", characters=cleaned.removed)
        return Succeeded(cleaned.value)
