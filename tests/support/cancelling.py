"""Cancels a call at each of its awaits, as the crash points kill a process at each of them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from enum import StrEnum
from typing import Any

MOST_AWAITS = 500
"""Far more than a call has that comes to an end."""

Call = Callable[[], Coroutine[Any, Any, Any]]


class Cancel(StrEnum):
    """When the call is cancelled, at the await that is chosen."""

    WAITING = "while it waits"
    ANSWERED = "as the answer arrives"
    AGAIN = "while it waits, and again at each await of its cleaning up"


async def cancel_at_each_await(call: Call, how: Cancel, rival: Call | None = None) -> AsyncIterator[int]:
    """Runs `call` again and again, cancelled at its first await, its second, and so on until it ends before. Yields the number
    of the await when the call has ended, and its rival with it.

    `rival` begins one turn of the loop before the call comes to that await: what both want is contended there.
    """
    for at in range(1, MOST_AWAITS):
        run = _Run(call(), at, how, rival)
        await asyncio.wait({run.task})
        if run.rival is not None:
            await run.rival
        yield at
        if run.awaits < at:
            await run.task
            return
    raise AssertionError(f"more than {MOST_AWAITS} awaits")


class _Run:
    """One run of the call, as a task."""

    def __init__(self, call: Coroutine[Any, Any, Any], at: int, how: Cancel, rival: Call | None) -> None:
        self._call = call
        self._at = at
        self._how = how
        self._begin_rival = rival
        self.rival: asyncio.Task[Any] | None = None
        self.awaits = 0
        self.task = asyncio.create_task(self._drive())

    async def _drive(self) -> Any:
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            if self.awaits == self._at - 1 and self._begin_rival is not None:
                self.rival = asyncio.create_task(self._begin_rival())
                yield
            try:
                waits_for = self._call.send(None) if error is None else self._call.throw(error)
            except StopIteration as ended:
                return ended.value
            self.awaits += 1
            if self.awaits == self._at or (self.awaits > self._at and self._how is Cancel.AGAIN):
                self._strike(waits_for)
            try:
                yield waits_for
            except BaseException as raised:
                error = raised
            else:
                error = None

    def _strike(self, waits_for: Any) -> None:
        if self._how is Cancel.ANSWERED and waits_for is not None:
            # Before the task's own callback: it has not seen the answer yet.
            waits_for.add_done_callback(lambda _: self.task.cancel())
        else:
            asyncio.get_running_loop().call_soon(self.task.cancel)
