"""Guards the event loop against SystemExit and KeyboardInterrupt from a handler's task, which end the whole loop in asyncio.

The loop would be gone, but not the process: at its end Python waits for the handlers' threads, they wait for the loop, and the
heartbeat's thread renews the leases of turns that no handler works on.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, TypeVar

EXITS = (SystemExit, KeyboardInterrupt)

Answer = TypeVar("Answer")

_in_attempt: ContextVar[bool] = ContextVar("in_attempt", default=False)


class HandlerExitedError(Exception):
    """The handler raised SystemExit or KeyboardInterrupt, which would end the process and all its other turns."""

    @classmethod
    def from_exit(cls, error: BaseException) -> "HandlerExitedError":
        """An error with the type and the text of `error`."""
        return cls(f"{type(error).__name__}: {error}")


class WithoutExits(Coroutine[Any, Any, Answer]):
    """Wraps a coroutine; raises HandlerExitedError where the coroutine raises SystemExit or KeyboardInterrupt.

    Not an `async def` wrapper: if that were cancelled before its first step, the inner coroutine would never be awaited.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Answer]) -> None:
        if not asyncio.iscoroutine(coroutine):
            raise TypeError(f"a coroutine was expected, got {coroutine!r}")
        self._coroutine = coroutine

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._coroutine.throw, *error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Answer]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # Libraries inspect the coroutines of their tasks: anyio, for instance, checks whether they have begun.
        return getattr(self._coroutine, name)

    @staticmethod
    def _step(step: Callable[..., Any], *given: Any) -> Any:
        try:
            return step(*given)
        except EXITS as error:
            raise HandlerExitedError.from_exit(error) from error


def begin_attempt() -> None:
    """Marks the running task, and every task that it creates from now on, as a handler's."""
    _in_attempt.set(True)


def outlive_exits(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the loop survive exits from tasks that handlers create: by gather, by a TaskGroup, or one by one."""
    loop.set_task_factory(_make_task)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
    return asyncio.Task(WithoutExits(coroutine) if _in_attempt.get() else coroutine, loop=loop, **options)
