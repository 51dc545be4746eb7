"""The interface for handler authors: the decorator, its options, and the exceptions that decide what happens to a turn.

    from turnstile import Retry, handler

    @handler(timeout=120, retry_on=(ProviderUnavailable,))
    async def respond(turn, ctx):
        return await model.reply(await ctx.history(limit=20))

A handler runs at least once per turn. Its return value is the reply. `ctx.fence` and `ctx.idempotency_key` protect its
side effects.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, TypeAlias, TypeVar, overload
from uuid import UUID

from turnstile.handlers.child import Child
from turnstile.handlers.shape import check_shape
from turnstile.memory.interface import Memory
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.conversation import join_inputs
from turnstile.turn.limits import check_attempts, check_seconds, check_wait

Answer = TypeVar("Answer")
COMPENSATION = "compensation"
"""The kind of turns that run `on_failed`."""

ABSENT_HANDLER_SECONDS = 5.0


class Retry(Exception):  # noqa: N818 - reads as an instruction: `raise Retry(after=5)`
    """Retries this turn after `after` seconds, or after the queue's backoff. Costs an attempt."""

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        super().__init__(message)
        # Checked here, where the handler's author sees the error, and not when the turn is settled.
        self.after = None if after is None else check_wait(after)


class Snooze(Exception):  # noqa: N818
    """Runs this turn again in `after` seconds at no cost in attempts: for a provider that returns 429 or 529."""

    def __init__(self, message: str = "", *, after: float) -> None:
        super().__init__(message)
        self.after = check_wait(after)


class Reject(Exception):  # noqa: N818
    """Fails this turn without a retry. `dead_letter=False` sends no dead letter: for a turn not worth rerunning (G27)."""

    def __init__(self, reason: str, *, dead_letter: bool = True) -> None:
        super().__init__(reason)
        self.dead_letter = dead_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The turn that the handler answers."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int
    queue: str
    kind: str = "turn"
    """`turn`, or `compensation` for a turn that runs `on_failed`."""
    inputs: tuple[Any, ...]
    """The user's messages, usually one: each a string or a JSON object."""
    metadata: Mapping[str, Any]
    created_at: datetime
    trace_id: str
    traceparent: str
    """W3C header for calls to other services, so that they join the trace."""
    generation: int = 1
    """Starts at 1; each redrive adds one."""
    parent_turn_id: UUID | None = None
    """The turn that started this child, or the failed turn that this one compensates."""

    @property
    def input(self) -> Any:
        """The single input, or several strings joined by a line break; otherwise a list."""
        return join_inputs(self.inputs)


class Remark(Protocol):
    """One message of the history."""

    @property
    def role(self) -> str:
        """`user` or `assistant`."""
        ...

    @property
    def content(self) -> Any:
        """The message: a string or another JSON value."""
        ...


class Context(Protocol):
    """What a handler can read and do while it runs. `worker.attempt.context` implements it."""

    @property
    def fence(self) -> int:
        """Increases with every claim of any turn. Send it with each external write; the target must refuse a lower one (L3)."""
        ...

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this turn, redrives included: for providers that accept a key."""
        ...

    @property
    def attempt(self) -> int:
        """Starts at 1, and again at 1 after a redrive."""
        ...

    @property
    def deadline(self) -> datetime:
        """When this attempt is cancelled."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: user cancel, timeout or shutdown. For functions that run in a thread."""
        ...

    @property
    def cancel_reason(self) -> CancelReason | None:
        """Why the handler should stop: `user`, `timeout`, `shutdown` or `superseded`. None while it should go on."""
        ...

    @property
    def log(self) -> Any:
        """A structlog logger bound to the turn."""
        ...

    @property
    def memory(self) -> Memory:
        """The session's working memory, which its handlers share: see `memory.interface`."""
        ...

    def emit(self, event: Any) -> Awaitable[None]:
        """Streams a piece of the reply's text (a string), or an event of your own (any other JSON value), to clients.

        Call `await ctx.emit(token)`. A function that runs in a thread calls `ctx.emit(token)` without `await`: the event is
        emitted when the call returns. It never blocks, and does not fail if Redis is down. Raises ValueError for a value that
        is not JSON, and for an event of more than 64 KiB. Events belong to this attempt only. They are not the reply: that is
        the return value.
        """
        ...

    async def history(self, limit: int = 20) -> Sequence[Remark]:
        """The last `limit` messages of the session, oldest first. The last one is this turn's input."""
        ...

    def wait_for(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """The result of an async call of this context, for functions that run in a thread: `ctx.wait_for(ctx.history())`.

        Raises concurrent.futures.CancelledError if the turn is cancelled meanwhile.
        """
        ...

    async def once(self, key: str, fn: Callable[[], Any]) -> Any:
        """Calls `fn` and records its result under `key`. A retry of this turn gets the recorded result without a call.

        `fn` takes no arguments and may be async; a plain function runs on the event loop. Its result must be JSON and is
        returned as JSON stores it: a tuple becomes a list. If `fn` raises, nothing is recorded.
        """
        ...

    async def submit(
        self,
        input: Any,  # noqa: A002 - as a submit over HTTP calls it
        *,
        session: str | None = None,
        key: str | None = None,
        queue: str | None = None,
        max_attempts: int | None = None,
        timeout_seconds: float | None = None,
        expires_in_seconds: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Child:
        """Starts a child turn, in a session of its own unless `session` is given. The child joins this turn's trace.

        The same call in a later run of this handler returns the same child. Calls match by `key` or, without a key, by their
        position in the run. A handler whose order of calls can change must therefore pass keys.
        """
        ...

    async def join(self, children: Sequence[Child], policy: str = "all") -> list[Any]:
        """The replies of the children, in the order of `children`, once the children have ended.

        Until then the call does not return: the attempt ends, at no cost in attempts, and the handler runs again from its
        start when the children have ended. The code before `join` must therefore be safe to repeat; use `once` for code that
        is not. With `all`, the first child that fails or is cancelled raises ChildFailedError. With `any`, one success is
        enough and the other children give None; ChildFailedError means that no child succeeded.
        """
        ...


@dataclass(frozen=True)
class Handler:
    """A function with its options. A submit's values override these options, and these override the queue's."""

    function: Callable[[Any, Any], Any]
    timeout: float | None = None
    """Timeout of one attempt, in seconds."""
    max_attempts: int | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    """Exceptions after which the turn is retried. ConnectionError and TimeoutError always count."""
    on_failed: "Handler | None" = None
    """Runs, as a separate turn, after a turn has ended FAILED."""

    def __post_init__(self) -> None:
        check_shape(self.function)

    # Cached: inspecting a function takes longer than many functions take to run.

    @cached_property
    def is_async(self) -> bool:
        """Whether it runs on the event loop. Other handlers run in a thread."""
        return inspect.iscoroutinefunction(self.function) or self.is_generator

    @cached_property
    def is_generator(self) -> bool:
        """Whether it is an async generator, whose yielded values are emitted."""
        return inspect.isasyncgenfunction(self.function)

    def __call__(self, turn: Any, ctx: Any) -> Any:
        return self.function(turn, ctx)

    def for_kind(self, kind: str) -> "Handler":
        """The handler for turns of this kind: itself, or its `on_failed` for a compensation."""
        if kind != COMPENSATION:
            return self
        return self.on_failed or Handler(_leave_to_another_worker)


RetryOn: TypeAlias = type[BaseException] | tuple[type[BaseException], ...]
OnFailed: TypeAlias = Handler | Callable[[Any, Any], Any] | None


@overload
def handler(function: Callable[[Any, Any], Any], /) -> Handler: ...


@overload
def handler(
    *, timeout: float | None = None, max_attempts: int | None = None, retry_on: RetryOn = (), on_failed: OnFailed = None
) -> Callable[[Callable[[Any, Any], Any]], Handler]: ...


def handler(
    function: Callable[[Any, Any], Any] | None = None,
    /,
    *,
    timeout: float | None = None,
    max_attempts: int | None = None,
    retry_on: RetryOn = (),
    on_failed: OnFailed = None,
) -> Handler | Callable[[Callable[[Any, Any], Any]], Handler]:
    """Makes a function (turn, ctx) -> reply a handler: `@handler`, or `@handler(timeout=120)`.

    The reply is a string or any other JSON value. Raises UnfitHandlerError for an object that can't be called with (turn, ctx).

    Each value that an async generator yields is emitted as by `ctx.emit`. Its reply is all yielded strings, joined in order
    (empty if there were none); other values are events and not part of the reply.

    `on_failed` is a function of the same kind, or a handler with its own options. It runs once for each turn that ends FAILED,
    as a separate turn with its own retries. Its input is an object: `turn_id`, `session_id`, `generation`, `inputs`,
    `error_class` and `error` of the failed turn, and `values`, which that turn recorded by `ctx.once`.
    """
    if timeout is not None:
        # Checked here, where the author sees it: a deadline that `datetime` can't hold would break off every claimed turn.
        check_seconds("timeout", timeout)
    if max_attempts is not None:
        check_attempts(max_attempts)
    if isinstance(on_failed, Handler) and on_failed.on_failed is not None:
        raise ValueError("a compensation has no compensation: on_failed may not have an on_failed")
    healing = retry_on if isinstance(retry_on, tuple) else (retry_on,)
    if unfit := [one for one in healing if not (isinstance(one, type) and issubclass(one, BaseException))]:
        raise ValueError(f"retry_on must be exception classes, got {unfit[0]!r}")
    undo = on_failed if on_failed is None or isinstance(on_failed, Handler) else Handler(on_failed)

    def decorate(function: Callable[[Any, Any], Any]) -> Handler:
        return Handler(function, timeout, max_attempts, healing, undo)

    return decorate if function is None else decorate(function)


def _leave_to_another_worker(turn: Any, ctx: Any) -> Any:
    # A worker with another version or another handler made this compensation. This worker may be the one being replaced.
    raise Snooze("this worker's handler has no on_failed", after=ABSENT_HANDLER_SECONDS)
