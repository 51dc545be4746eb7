"""What a user of Turnstile writes and sees: a function, its options, and the exceptions that say what should happen.

    from turnstile import Retry, handler

    @handler(timeout=120, retry_on=(ProviderUnavailable,))
    async def respond(turn, ctx):
        return await model.reply(await ctx.history(limit=20))

A handler runs at least once per turn, and by returning it answers. `ctx.fence` and `ctx.idempotency_key` protect what it
does outside.
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
"""The kind of the turns that `on_failed` answers."""

ABSENT_HANDLER_SECONDS = 5.0


class Retry(Exception):  # noqa: N818 - reads as an instruction: `raise Retry(after=5)`
    """Try this turn again: after `after` seconds, or after the queue's backoff. Spends an attempt."""

    def __init__(self, message: str = "", *, after: float | None = None) -> None:
        super().__init__(message)
        # Refused here, where the handler's author sees it, and not when the turn is to be settled.
        self.after = None if after is None else check_wait(after)


class Snooze(Exception):  # noqa: N818
    """Come back in `after` seconds without spending an attempt: for a provider that says 429 or 529."""

    def __init__(self, message: str = "", *, after: float) -> None:
        super().__init__(message)
        self.after = check_wait(after)


class Reject(Exception):  # noqa: N818
    """Give this turn up at once. `dead_letter=False`: not worth rerunning, so not worth a dead letter (G27)."""

    def __init__(self, reason: str, *, dead_letter: bool = True) -> None:
        super().__init__(reason)
        self.dead_letter = dead_letter


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The turn to answer."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int
    queue: str
    kind: str = "turn"
    """`turn`, or `compensation` for what `on_failed` is given."""
    inputs: tuple[Any, ...]
    """What the user said: usually one item, each a string or a JSON object."""
    metadata: Mapping[str, Any]
    created_at: datetime
    trace_id: str
    traceparent: str
    """For calls to others, so that the trace goes on."""
    generation: int = 1
    """One more with each redrive."""
    parent_turn_id: UUID | None = None
    """Whose child it is, or whose compensation."""

    @property
    def input(self) -> Any:
        """What the user said; several strings are joined by a line break."""
        return join_inputs(self.inputs)


class Remark(Protocol):
    """One message of the history."""

    @property
    def role(self) -> str:
        """`user` or `assistant`."""
        ...

    @property
    def content(self) -> Any:
        """What was said."""
        ...


class Context(Protocol):
    """What a handler may ask and do while it answers; `worker.attempt.context` is the real one."""

    @property
    def fence(self) -> int:
        """Rises with every claim of any turn. Give it to whatever you write to, and let that refuse a lower one (L3)."""
        ...

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this turn, redrives included: for providers that take one."""
        ...

    @property
    def attempt(self) -> int:
        """From 1; starts anew after a redrive."""
        ...

    @property
    def deadline(self) -> datetime:
        """When this attempt is cancelled."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether to come to an end: cancelled by the user, timed out, shut down. For functions that run in a thread."""
        ...

    @property
    def cancel_reason(self) -> CancelReason | None:
        """Why: `user`, `timeout`, `shutdown` or `superseded`. None as long as nobody has asked."""
        ...

    @property
    def log(self) -> Any:
        """A structlog logger that is bound to the turn."""
        ...

    @property
    def memory(self) -> Memory:
        """What the session's handlers keep for themselves: see `memory.interface`."""
        ...

    def emit(self, event: Any) -> Awaitable[None]:
        """Says a piece of the reply's text (a string), or an event of your own (any other JSON value), to whoever reads along.

        `await ctx.emit(token)`; from a function that runs in a thread `ctx.emit(token)`, for it is done when the call
        returns. It waits for nothing and does not fail for want of Redis. Raises ValueError for what is not JSON, and for
        an event of more than 64 KiB. What was said counts for this attempt only, and is not the reply: that is what you
        return.
        """
        ...

    async def history(self, limit: int = 20) -> Sequence[Remark]:
        """The last `limit` messages of the session, oldest first; the last is this turn's input."""
        ...

    def wait_for(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer of an async call of this context, for functions that run in a thread: `ctx.wait_for(ctx.history())`.

        Raises concurrent.futures.CancelledError when the turn is cancelled meanwhile.
        """
        ...

    async def once(self, key: str, fn: Callable[[], Any]) -> Any:
        """What `fn` returned the first time that this turn asked for `key`: a retry gets it without calling `fn`.

        `fn` takes nothing and may be async; one that is not runs on the event loop. What it returns must be JSON, and comes
        back as JSON has it: a tuple is a list. If `fn` raises, nothing is recorded.
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
        """Starts a child turn, in a session of its own unless one is named; its trace goes on from this turn.

        A later run of this handler gets the same child from the same call: the one with the same `key` or, without one, the
        call of the same number. So a handler that starts children in another order each time must give them keys.
        """
        ...

    async def join(self, children: Sequence[Child], policy: str = "all") -> list[Any]:
        """The children's replies, in their order, once they have ended.

        While they have not, it does not return: the attempt ends, free of charge, and the handler runs again from its top
        when they have. So whatever comes before it must bear being run again; `once` is for what must not. With `all`, the
        first child that fails or is cancelled raises ChildFailedError; with `any`, one that succeeds is enough, the others
        give None, and ChildFailedError means that none did.
        """
        ...


@dataclass(frozen=True)
class Handler:
    """A function with its options. What a submit asks for goes before them, the queue's come after."""

    function: Callable[[Any, Any], Any]
    timeout: float | None = None
    """Seconds an attempt may take."""
    max_attempts: int | None = None
    retry_on: tuple[type[BaseException], ...] = ()
    """Exceptions that may heal. ConnectionError and TimeoutError are always among them."""
    on_failed: "Handler | None" = None
    """What is run, as a turn of its own, after a turn that finally failed."""

    def __post_init__(self) -> None:
        check_shape(self.function)

    # Found out once: to look at a function takes longer than many a function.

    @cached_property
    def is_async(self) -> bool:
        """Async handlers run on the event loop, others in a thread."""
        return inspect.iscoroutinefunction(self.function) or self.is_generator

    @cached_property
    def is_generator(self) -> bool:
        """Async generators speak by yielding."""
        return inspect.isasyncgenfunction(self.function)

    def __call__(self, turn: Any, ctx: Any) -> Any:
        return self.function(turn, ctx)

    def for_kind(self, kind: str) -> "Handler":
        """What answers a turn of this kind: itself, or for a compensation its `on_failed`."""
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

    The reply is a string or anything that JSON can say. Raises UnfitHandlerError for what can't be called with the two.

    Of an async generator each value is emitted as by `ctx.emit`. Its reply is the text of all strings it yielded, in their
    order (the empty text if there were none); other values are events and no part of the reply.

    `on_failed` is a function of the same kind, or a handler with options of its own. It is run once for each turn that
    finally fails, as a turn of its own with its own retries. Its input is an object: `turn_id`, `session_id`, `generation`,
    `inputs`, `error_class` and `error` of the failed turn, and `values`, what that has recorded by `ctx.once`.
    """
    if timeout is not None:
        # Here, where its author sees it: a date beyond all dates would break off each turn that is claimed, over and over.
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
    # A worker of another version, or with another handler, has made it. It may be the one that is being replaced.
    raise Snooze("this worker's handler has no on_failed", after=ABSENT_HANDLER_SECONDS)
