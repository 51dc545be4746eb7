"""A handler's arguments: the turn, and a context with a fence, a deadline and a way to cancel."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from turnstile.handlers.context import Turn
from turnstile.memory.history import History
from turnstile.memory.interface import Memory
from turnstile.telemetry.own_log import log
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import Message
from turnstile.worker.attempt.children import Children
from turnstile.worker.attempt.emitter import Emitter
from turnstile.worker.attempt.once import RecordedValues
from turnstile.worker.attempt.own_loop import MemoryOnLoop, OnLoop, check_loop
from turnstile.worker.attempt.usage import Usage, report_usage
from turnstile.worker.database_retry import RetryWhileDown

if TYPE_CHECKING:
    from turnstile.telemetry.attempt_span import AttemptSpan

MAX_HISTORY = 1000

Result = TypeVar("Result")


def turn_for_handler(turn: ClaimedTurn, span: "AttemptSpan | None" = None) -> Turn:
    """The handler's view of a claimed turn. The inputs are copies: the handler may change them.

    What the handler calls belongs to its attempt's span, or, while no traces are exported, to the turn's.
    """
    return Turn(
        id=turn.id,
        tenant_id=turn.tenant_id,
        session_id=turn.session_id,
        seq=turn.seq,
        queue=turn.queue,
        kind=turn.kind,
        inputs=tuple(map(_own, turn.inputs)),
        metadata=turn.metadata,
        created_at=turn.created_at,
        trace_id=turn.trace_id,
        traceparent=(turn.trace if span is None else span.trace).traceparent,
        generation=turn.generation,
        parent_turn_id=turn.parent_turn_id,
    )


class TurnContext:
    def __init__(
        self,
        turn: ClaimedTurn,
        timeout_seconds: float,
        retry_while_down: RetryWhileDown,
        *,
        history: History,
        memory: Memory,
        emitter: Emitter,
        values: RecordedValues,
        children: Children,
    ) -> None:
        self._turn = turn
        self._history = history
        self._retry_while_down = retry_while_down
        self._memory = memory
        self._values = values
        self._children = children
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._awaited: set[concurrent.futures.Future[Any]] = set()
        self._cancelled = False
        self.was_heard = False
        """Whether the handler has seen the request to end: in `cancelled` or `cancel_reason`, or by a call that was cancelled."""
        self._cancel_reason: CancelReason | None = None
        self.emit = emitter.emit
        self.start_clock(timeout_seconds)

    # Each of these is created on first use: most handlers use none.
    @cached_property
    def memory(self) -> Memory:
        return cast("Memory", MemoryOnLoop(self._loop, "ctx.memory", self._memory))

    @cached_property
    def once(self) -> Any:
        return OnLoop(self._loop, "ctx", self._values).once

    @cached_property
    def submit(self) -> Any:
        return OnLoop(self._loop, "ctx", self._children).submit

    @cached_property
    def join(self) -> Any:
        return OnLoop(self._loop, "ctx", self._children).join

    @cached_property
    def log(self) -> Any:
        turn = self._turn
        return log.bind(turn_id=str(turn.id), session_id=turn.session_id, attempt=turn.attempt, trace_id=turn.trace_id)

    def report_usage(
        self, *, model: str, input_tokens: int = 0, output_tokens: int = 0, cost_dollars: float | None = None
    ) -> None:
        report_usage(self.log, self._turn.queue, Usage.of(model, input_tokens, output_tokens, cost_dollars))

    @property
    def fence(self) -> int:
        return self._turn.fence

    @property
    def idempotency_key(self) -> str:
        return str(self._turn.id)

    @property
    def attempt(self) -> int:
        return self._turn.attempt

    @property
    def cancelled(self) -> bool:
        # Read once, so that `was_heard` matches the returned value even if another thread cancels in between.
        if cancelled := self._cancelled:
            self.was_heard = True
        return cancelled

    @property
    def cancel_reason(self) -> CancelReason | None:
        if (reason := self._cancel_reason) is not None:
            self.was_heard = True
        return reason

    def start_clock(self, timeout_seconds: float) -> None:
        """Sets the deadline: the attempt's time begins now."""
        self.deadline = datetime.now(UTC) + timedelta(seconds=timeout_seconds)

    def cancel(self, reason: CancelReason) -> None:
        # In this order: a handler that sees `cancelled` also sees the reason.
        self._cancel_reason = reason
        self._cancelled = True
        for waited_for in list(self._awaited):
            if waited_for.cancel():
                self.was_heard = True

    def wait_for(self, call: Coroutine[Any, Any, Result]) -> Result:
        if threading.get_ident() == self._loop_thread:
            call.close()
            raise RuntimeError("wait_for is for handlers that run in a thread; an async function uses await")
        waited_for = asyncio.run_coroutine_threadsafe(call, self._loop)
        self._awaited.add(waited_for)
        try:
            # Checked after the call was added: `cancel` either finds the call, or is noticed here.
            if self.cancelled:
                waited_for.cancel()
            return waited_for.result()
        finally:
            self._awaited.discard(waited_for)

    async def history(self, limit: int = 20) -> Sequence[Message]:
        check_loop(self._loop, "ctx.history")
        if not 1 <= limit <= MAX_HISTORY:
            raise ValueError(f"limit must be 1 to {MAX_HISTORY}, got {limit}")
        turn = self._turn
        said_now = [_own_message(said) for said in turn.messages[-limit:]]
        before: list[Message] = []
        if limit > len(said_now):
            before = await self._retry_while_down(
                lambda: self._history.read(turn.tenant_id, turn.session_id, turn.history_version, limit - len(said_now))
            )
        return [*before, *said_now]


def _own(content: Any) -> Any:
    # After the settle the turn's messages are written into the session's history as they are then (ADR 0016). If a handler could
    # pop a key of the original input, every later prompt and every client would see a changed message.
    #
    # Not deepcopy: its bookkeeping for shared references, which JSON does not have, blocked the event loop two to three times as
    # long (for 256 KB: 4 ms for the messages of a chat, 18 ms for small objects).
    if isinstance(content, dict):
        return {name: _own(value) for name, value in content.items()}
    return [_own(one) for one in content] if isinstance(content, list) else content


def _own_message(said: Message) -> Message:
    return said if isinstance(said.content, str) else replace(said, content=_own(said.content))
