"""The decorator `handler`, and the options that it sets.

    from turnstile import Retry, handler

    @handler(timeout=120, retry_on=(ProviderUnavailable,))
    async def respond(turn, ctx):
        return await model.reply(await ctx.history(limit=20))

A handler runs at least once per turn. Its return value is the reply. `ctx.fence` and `ctx.idempotency_key` protect its
side effects.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args, overload

from turnstile.handlers.exceptions import Snooze
from turnstile.handlers.handler_signature import check_shape
from turnstile.turn.limits import check_attempts, check_seconds

COMPENSATION = "compensation"
"""The kind of turns that run `on_failed`."""

ABSENT_HANDLER_SECONDS = 5.0

Unforeseen: TypeAlias = Literal["fail", "retry"]
"""What an exception does that the handler's author has not foreseen."""


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
    unforeseen: Unforeseen = "fail"
    """What any other exception does: "fail" ends the turn at once, "retry" uses its attempts up first."""

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
    *,
    timeout: float | None = None,
    max_attempts: int | None = None,
    retry_on: RetryOn = (),
    on_failed: OnFailed = None,
    unforeseen: Unforeseen = "fail",
) -> Callable[[Callable[[Any, Any], Any]], Handler]: ...


def handler(
    function: Callable[[Any, Any], Any] | None = None,
    /,
    *,
    timeout: float | None = None,
    max_attempts: int | None = None,
    retry_on: RetryOn = (),
    on_failed: OnFailed = None,
    unforeseen: Unforeseen = "fail",
) -> Handler | Callable[[Callable[[Any, Any], Any]], Handler]:
    """Makes a function (turn, ctx) -> reply a handler: `@handler`, or `@handler(timeout=120)`.

    The reply is a string or any other JSON value. Raises UnfitHandlerError for an object that can't be called with (turn, ctx).

    Each value that an async generator yields is emitted as by `ctx.emit`. Its reply is all yielded strings, joined in order
    (empty if there were none); other values are events and not part of the reply.

    `unforeseen` says what an exception does that is neither one of Turnstile's nor in `retry_on`. "fail", the default: the turn
    is FAILED at once, because most such errors are bugs that a retry repeats. "retry": it is retried like one of `retry_on`.

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
    if unforeseen not in get_args(Unforeseen):
        raise ValueError(f"unforeseen must be 'fail' or 'retry', got {unforeseen!r}")
    undo = on_failed if on_failed is None or isinstance(on_failed, Handler) else Handler(on_failed)

    def decorate(function: Callable[[Any, Any], Any]) -> Handler:
        return Handler(function, timeout, max_attempts, healing, undo, unforeseen)

    return decorate if function is None else decorate(function)


def _leave_to_another_worker(turn: Any, ctx: Any) -> Any:
    # A worker with another version or another handler made this compensation. This worker may be the one being replaced.
    raise Snooze("this worker's handler has no on_failed", after=ABSENT_HANDLER_SECONDS)
