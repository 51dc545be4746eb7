"""The turns in flight: a task for each, so that a shutdown can wait for them and cancel what is left."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class TurnsInFlight:
    """The tasks of one consumer, or of one invocation of a function."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finished(self) -> None:
        while self._tasks:
            await asyncio.wait(self._tasks)

    def abandon(self) -> None:
        for task in self._tasks:
            task.cancel()
