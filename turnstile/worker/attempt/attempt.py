"""Handle: one attempt of the user's function, with a timeout and a way to stop it from outside.

Whatever the function does, there is exactly one Outcome. A function that ignores its cancellation is left behind after a grace
period: its turn goes on without it (the fence refuses its later writes), and its slot stays taken until it ends.
"""

import asyncio
import concurrent.futures
import contextvars
import os
import traceback
from collections.abc import AsyncGenerator, Awaitable
from concurrent.futures import Executor
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from turnstile.handlers.context import Turn
from turnstile.handlers.handler import Handler
from turnstile.sealing.contents import Unopened
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.error_classes import UNFIT_REPLY, name_class
from turnstile.worker.attempt.attempt_context import TurnContext
from turnstile.worker.attempt.outcome import (
    AttemptEnding,
    Failed,
    Outcome,
    Stopped,
    StopReason,
    Succeeded,
    TimedOut,
    cause_of,
    classify,
    storable,
)
from turnstile.worker.attempt.reply import MAX_REPLY_CHARACTERS, UnfitReplyError, clean

if TYPE_CHECKING:
    from turnstile.telemetry.attempt_span import AttemptSpan

HAND_BACK_GRACE_SECONDS = 1.0
"""How long a handler may take to end at a shutdown. Short enough that its turn is handed back within two seconds."""

MAX_TRACEBACK_CHARACTERS = 8_000
"""How much of a failed attempt's traceback is kept: its end, which is nearest to the error."""

TASK = "turn"
"""The first word of the name of a handler's task; the turn's id and its trace id follow (`ids_of`)."""


def ids_of(task: "asyncio.Task[Any] | None") -> dict[str, str]:
    """The turn's and its trace's id, if it is a handler's task, and not one that a handler has made; otherwise none."""
    match task.get_name().split() if task is not None else []:
        case [word, turn_id, trace_id] if word == TASK:
            return {"turn_id": turn_id, "trace_id": trace_id}
        case _:
            return {}


class HandlerExitedError(Exception):
    """The handler raised SystemExit or KeyboardInterrupt. They fail its turn, and nothing more (`lifecycle.event_loop`)."""


class Attempt:
    def __init__(
        self,
        handler: Handler,
        turn: Turn,
        context: TurnContext,
        threads: Executor,
        span: "AttemptSpan | None" = None,
    ) -> None:
        self._handler = handler
        self._span = span
        self._turn = turn
        self._context = context
        self._threads = threads
        loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[StopReason] = loop.create_future()
        self._cancel_reason = CancelReason.TIMEOUT
        self._hurried: asyncio.Future[None] = loop.create_future()
        self._interrupted = False
        self._process = os.getpid()
        self._job: concurrent.futures.Future[Any] | None = None
        self.left_behind: asyncio.Future[Any] | None = None
        """The handler's run, if it ignored its cancellation. Its slot is not free until this is done."""

    def stop(self, reason: StopReason, cancel_reason: CancelReason | None = None) -> None:
        """Asks the handler to end. Call it on the event loop, at any time and repeatedly: the first reason counts.

        `cancel_reason` is the reason that the handler sees: for a cancel request, the one in the turn's row.
        """
        if not self._stopped.done():
            self._cancel_reason = cancel_reason or reason.cancel_reason
            self._stopped.set_result(reason)
        if reason is StopReason.SHUTDOWN and not self._hurried.done():
            self._hurried.set_result(None)

    def not_begun(self, reason: StopReason) -> Stopped:
        """The outcome of an attempt that never ran: stopped for `reason`, or for an earlier reason if there was one."""
        self.stop(reason)
        return Stopped(self._stopped.result())

    async def wait_for(self, other: asyncio.Future[Any], seconds: float) -> None:
        """Waits until `other` is done, the attempt is stopped, or the time is over."""
        # At a third of the cost of asyncio.wait: every turn passes here.
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def end(_: object = None) -> None:
            if not over.done():
                over.set_result(None)

        other.add_done_callback(end)
        self._stopped.add_done_callback(end)
        timer = loop.call_later(seconds, end)
        try:
            await over
        finally:
            timer.cancel()
            other.remove_done_callback(end)
            self._stopped.remove_done_callback(end)

    async def run(self, timeout_seconds: float, cancel_grace_seconds: float) -> Outcome:
        """Runs the handler to an outcome. Takes no longer than both durations together, unless the event loop is blocked.

        After `stop(SHUTDOWN)` it takes HAND_BACK_GRACE_SECONDS at most, even if the attempt was being stopped already.
        """
        if self._stopped.done():
            return Stopped(self._stopped.result())
        running = asyncio.create_task(self._call(), name=f"{TASK} {self._turn.id} {self._turn.trace_id}")
        await self.wait_for(running, timeout_seconds)
        if running.done() and not self._stopped.done():
            return self._outcome(running)
        timed_out = not self._stopped.done()
        self._context.cancel(self._cancel_reason)
        await self._let_end(running, cancel_grace_seconds)
        if timed_out:
            return TimedOut(timeout_seconds)
        reason = self._stopped.result()
        noticed = self._interrupted or self._context.was_heard
        answered = running.done() and not running.cancelled() and not running.exception()
        if reason is StopReason.SHUTDOWN and answered and not noticed:
            # The handler did not see the stop, so its reply is complete: handing the turn back would only discard it. A handler
            # that has seen the stop may return an incomplete reply, so its turn runs again elsewhere.
            return self._outcome(running)
        return Stopped(reason)

    async def _let_end(self, running: asyncio.Future[Any], grace_seconds: float) -> None:
        if self._can_be_interrupted():
            self._interrupted = running.cancel()
        first: set[asyncio.Future[Any]] = {running, self._hurried}
        await asyncio.wait(first, timeout=grace_seconds, return_when=asyncio.FIRST_COMPLETED)
        if not running.done() and self._hurried.done():
            await asyncio.wait({running}, timeout=min(grace_seconds, HAND_BACK_GRACE_SECONDS))
        if not running.done():
            self.left_behind = running
            running.add_done_callback(_retrieve_error)
            self._context.log.warning("attempt.left_behind", grace_seconds=grace_seconds)
        else:
            _retrieve_error(running)

    def _can_be_interrupted(self) -> bool:
        # A running thread can't be cancelled, only asked to end, so its end and perhaps its reply are waited for. A job that has
        # not begun is cancelled. A job that has just returned keeps its reply, unless the reply must still be awaited.
        job = self._job
        if job is None or job.cancel():
            return True
        return job.done() and job.exception() is None and isinstance(job.result(), Awaitable | AsyncGenerator)

    async def _call(self) -> Any:
        if self._span is not None:
            # Here, because this is the handler's own task; a thread gets a copy of its context.
            self._span.enter_handler()
        try:
            return await self._reply()
        except (SystemExit, KeyboardInterrupt) as error:
            raise HandlerExitedError(f"{type(error).__name__}: {error}") from error
        finally:
            self._end_fork()

    async def _reply(self) -> Any:
        for one in self._turn.inputs:
            if isinstance(one, Unopened):
                raise one.error
        if self._handler.is_generator:
            return await self._spoken(self._handler(self._turn, self._context))
        if self._handler.is_async:
            return await self._handler(self._turn, self._context)
        bound = contextvars.copy_context()
        self._job = self._threads.submit(bound.run, self._call_in_thread)
        reply = await asyncio.wrap_future(self._job)
        # A plain function that returns a coroutine, for instance a functools.partial of an async one.
        if isinstance(reply, AsyncGenerator):
            return await self._spoken(reply)
        return await reply if isinstance(reply, Awaitable) else reply

    def _call_in_thread(self) -> Any:
        try:
            return self._handler(self._turn, self._context)
        except StopIteration as error:
            # As a coroutine does by itself. A future does not accept StopIteration: the attempt would wait until its timeout.
            raise RuntimeError("the handler raised StopIteration") from error
        finally:
            self._end_fork()

    def _end_fork(self) -> None:
        # A process that the handler has forked would go on as a second worker, on the same connections.
        if os.getpid() != self._process:
            os._exit(1)

    async def _spoken(self, generator: AsyncGenerator[Any, None]) -> str:
        said: list[str] = []
        characters = 0
        async with aclosing(generator) as yielded:
            async for one in yielded:
                self._context.emit(one)
                if isinstance(one, str):
                    said.append(one)
                    characters += len(one)
                if characters > MAX_REPLY_CHARACTERS:
                    # `clean` will refuse the reply. An endless generator must not be collected until the timeout.
                    break
        return "".join(said)

    def _outcome(self, running: asyncio.Future[Any]) -> Outcome:
        try:
            return self._judge(running)
        except Exception as error:
            # Inspecting the handler's exception or reply has failed. If this error were raised, it would end the session run, and
            # the turn would be taken over again and again: a crash loop.
            raised = None if running.cancelled() else running.exception()
            name = name_class(error if raised is None else raised)
            text = f"the handler's result can't be inspected: {type(error).__name__}"
            return Failed(name, text, may_heal=False, unforeseen=True)

    def _judge(self, running: asyncio.Future[Any]) -> Outcome:
        if running.cancelled():
            return self._classify(asyncio.CancelledError("the handler cancelled itself"))
        raised = running.exception()
        if raised is None:
            return self._answered(running.result())
        error = cause_of(raised, self._handler.retry_on)
        if isinstance(error, AttemptEnding):
            return self._classify(error)
        # The place, for the handler's author; not the error's text, which may quote user content.
        frames = traceback.format_tb(raised.__traceback__)
        if error is not raised:
            frames += traceback.format_tb(error.__traceback__)
        self._context.log.info("attempt.raised", error_class=type(error).__name__, where="".join(frames[-6:]))
        outcome = self._classify(error)
        if isinstance(outcome, Failed):
            return replace(outcome, traceback=storable("".join(frames))[-MAX_TRACEBACK_CHARACTERS:])
        return outcome

    def _classify(self, error: BaseException) -> Outcome:
        retry_unforeseen = self._handler.unforeseen == "retry"
        return classify(error, self._handler.retry_on, retry_unforeseen=retry_unforeseen)

    def _answered(self, reply: Any) -> Outcome:
        try:
            cleaned = clean(reply)
        except UnfitReplyError as error:
            return Failed(UNFIT_REPLY, str(error), may_heal=False, unforeseen=True)
        if cleaned.removed:
            self._context.log.warning("reply.cleaned", characters=cleaned.removed)
        return Succeeded(cleaned.value, cleaned.text)


def _retrieve_error(ended: "asyncio.Future[Any]") -> None:
    # Otherwise asyncio logs the error, with its text, when the future is collected.
    if not ended.cancelled():
        ended.exception()
