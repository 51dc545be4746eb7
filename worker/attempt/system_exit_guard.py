"""SystemExit and KeyboardInterrupt out of a handler's task, which asyncio takes for the end of the whole loop.

The loop would be gone and the process not: Python waits at its end for the handlers' threads, they wait for the loop, and the
heartbeat's thread renews the leases of turns that nobody works on.
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
        """With what it said."""
        return cls(f"{type(error).__name__}: {error}")


class WithoutExits(Coroutine[Any, Any, Answer]):
    """A coroutine that raises HandlerExitedError where the one in it raises what would end the loop.

    Not an `async def` around it: cancelled before its first step, that would leave a coroutine behind that was never awaited.
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
        # Libraries look at the coroutines of their tasks, anyio for instance at whether they have begun.
        return getattr(self._coroutine, name)

    @staticmethod
    def _step(step: Callable[..., Any], *given: Any) -> Any:
        try:
            return step(*given)
        except EXITS as error:
            raise HandlerExitedError.from_exit(error) from error


def begin_attempt() -> None:
    """From here on the running task is a handler's, and so is what it makes."""
    _in_attempt.set(True)


def outlive_exits(loop: asyncio.AbstractEventLoop) -> None:
    """Makes the loop outlive exits out of tasks that handlers make: by gather, by a TaskGroup, one by one."""
    loop.set_task_factory(_make_task)


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> "asyncio.Task[Any]":
    return asyncio.Task(WithoutExits(coroutine) if _in_attempt.get() else coroutine, loop=loop, **options)
