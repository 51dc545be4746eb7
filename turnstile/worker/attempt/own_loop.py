"""Keeps a handler's calls on the worker's event loop.

A handler in a thread may run an event loop of its own: `asyncio.run(agent(ctx))`. Its calls would use the locks and connections
of all turns from a second loop. One call at a time often works that way, and thirty stop the whole process.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

from turnstile.memory.interface import MemoryChange


def check_loop(loop: asyncio.AbstractEventLoop, name: str) -> None:
    """Raises RuntimeError if the call `name` does not run on `loop`."""
    if asyncio.get_running_loop() is not loop:
        raise RuntimeError(
            f"{name} runs on the worker's event loop only, and this is another one: "
            "in a thread, use ctx.wait_for instead of asyncio.run"
        )


class OnLoop:
    """`kept`, each of whose async methods runs on `loop` only. `name` is what a handler calls it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, kept: Any) -> None:
        self._loop = loop
        self._name = name
        self._kept = kept

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kept, name)
        if not inspect.iscoroutinefunction(call):
            return call

        # Not checked before it runs: a thread makes the call that `ctx.wait_for` runs on the worker's loop.
        @wraps(call)
        async def checked(*given: Any, **named: Any) -> Any:
            check_loop(self._loop, f"{self._name}.{name}")
            return await call(*given, **named)

        return checked


class MemoryOnLoop(OnLoop):
    @asynccontextmanager
    async def changes(self) -> AsyncIterator[AsyncIterator[MemoryChange]]:
        check_loop(self._loop, f"{self._name}.changes")
        async with self._kept.changes() as changes:
            yield changes
