"""What a handler receives: its turn, and the context with what it may read and do meanwhile."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar
from uuid import UUID

from turnstile.handlers.child import Child
from turnstile.memory.interface import Memory
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.conversation import Message, join_inputs

Result = TypeVar("Result")


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


class Context(Protocol):
    """What a handler can read and do while it runs. `worker.attempt.attempt_context` implements it."""

    @property
    def fence(self) -> int:
        """Increases with every claim of any turn. Send it with each external write; the target must refuse a lower one."""
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

    def report_usage(
        self, *, model: str, input_tokens: int = 0, output_tokens: int = 0, cost_dollars: float | None = None
    ) -> None:
        """Reports what a call of a model used, for the metrics and as one log line. Several reports of a turn add up.

        For async functions and for those in threads; it does not wait. It never raises: what is not a number, or below 0, counts
        as 0. Beyond 50 models a process, the metrics say `other`.
        """
        ...

    def emit(self, event: Any) -> Awaitable[None]:
        """Streams a piece of the reply's text (a string), or an event of your own (any other JSON value), to clients.

        Call `await ctx.emit(token)`. A function that runs in a thread calls `ctx.emit(token)` without `await`: the event is
        emitted when the call returns. It never blocks, and does not fail if Redis is down. Raises ValueError for a value that
        is not JSON, and for an event of more than 64 KiB. Events belong to this attempt only. They are not the reply: that is
        the return value.
        """
        ...

    async def history(self, limit: int = 20) -> Sequence[Message]:
        """The last `limit` messages of the session, oldest first. The last one is this turn's input."""
        ...

    def wait_for(self, call: Coroutine[Any, Any, Result]) -> Result:
        """The result of an async call of this context, for functions that run in a thread: `ctx.wait_for(ctx.history())`.

        An event loop of the function's own can't run such a call: the call raises RuntimeError there.
        Raises concurrent.futures.CancelledError if the turn is cancelled meanwhile.
        """
        ...

    async def once(self, key: str, fn: Callable[[], Any]) -> Any:
        """Calls `fn` and records its result under `key`. A retry of this turn gets the recorded result without a call.

        `fn` takes no arguments and may be async. A plain function runs where the handler does: on the event loop, which it must
        not block, or in a thread. Its result must be JSON and is returned as JSON stores it: a tuple becomes a list. If `fn`
        raises, nothing is recorded. RuntimeError if `fn` calls `once` with the same key: it would wait for itself.
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

    async def join(self, children: Sequence[Child], policy: str = "all", *, on_failure: str = "leave") -> list[Any]:
        """The replies of the children, in the order of `children`, once the children have ended.

        Until then the call does not return: the attempt ends, at no cost in attempts, and the handler runs again from its
        start when the children have ended. The code before `join` must therefore be safe to repeat; use `once` for code that
        is not. With `all`, the first child that fails or is cancelled raises ChildFailedError. With `any`, one success is
        enough and the other children give None; ChildFailedError means that no child succeeded. Where a failure ends the join,
        children that are open still go on with `leave`; `cancel` cancels them.
        """
        ...
