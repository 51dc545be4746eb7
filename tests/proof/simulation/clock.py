"""The virtual clock: an asyncio event loop that never waits and never asks the operating system for anything.

All simulated processes share it. Every callback belongs to a strand (a thread of a process); while a strand is suspended, its
callbacks pile up and run when it is resumed (SIGSTOP, a blocked event loop); those of a dead one never run (SIGKILL).
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

Callback = Callable[..., object]


MOST_FINALLIES = 100
"""That one coroutine is in."""


class DeadlockError(Exception):
    """Nothing is left that could ever happen."""


class Strand:
    """A thread of a simulated process, as the owner of callbacks."""

    __slots__ = ("backlog", "dead", "halted", "name", "process", "suspensions")

    def __init__(self, name: str, process: Any = None) -> None:
        self.name = name
        self.process = process
        self.halted = False
        """Suspended or dead: one test on the hot path."""
        self.dead = False
        self.suspensions = 0
        self.backlog: list[Handle] = []


class Handle:
    """One callback to come; what asyncio needs of `asyncio.TimerHandle`."""

    __slots__ = ("args", "callback", "cancelled_", "context", "strand", "when_")

    def __init__(
        self, callback: Callback, args: tuple[Any, ...], context: Context, strand: Strand, when: float
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.strand = strand
        self.when_ = when
        self.cancelled_ = False

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self.when_


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose place in a set does not depend on its address: a seed must replay exactly."""

    def __hash__(self) -> int:
        return number(self)


class SimulatedTask(asyncio.Task[Any]):
    """The same of a task."""

    def __hash__(self) -> int:
        return number(self)


_numbers = itertools.count(1)


def number(one: Any) -> int:
    """A hash that is the same in every run: the place in the order in which things were first hashed."""
    try:
        found: int = one.number
    except AttributeError:
        # Not in the constructor, because asyncio itself asks inside of its own.
        found = one.number = next(_numbers)
    return found


def renumber() -> None:
    """Numbers start anew: at the beginning of each life."""
    global _numbers
    _numbers = itertools.count(1)


class VirtualLoop(asyncio.BaseEventLoop):
    """Time jumps to the next timer as soon as nothing is ready."""

    def __init__(self, begins_at: float) -> None:
        super().__init__()
        self.now = begins_at
        self.world = Strand("world")
        self.current = self.world
        """Whose callback is running."""
        self.tasks: list[SimulatedTask] = []
        """All of them, so that none is forgotten, and finalised, at a moment that the garbage collector chooses."""
        self.complaints: list[dict[str, Any]] = []
        self.ended = False
        self.steps = 0
        self._ready: deque[Handle] = deque()  # type: ignore[assignment]
        self._timers: list[tuple[float, int, Handle]] = []
        self._order = itertools.count()

    # --- what asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, context or copy_context(), self.current, self.now)
        if not self.ended:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        """Whatever thread of a process asks: it runs on the process's event loop."""
        process = self.current.process
        strand = self.current if process is None else process.strand
        handle = Handle(callback, args, context or copy_context(), strand, self.now)
        if not self.ended:
            self._ready.append(handle)
        return handle

    def call_at(self, when: float, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        return self.call_in(self.current, when, callback, *args, context=context)

    def call_later(self, delay: float, callback: Callback, *args: Any, context: Context | None = None) -> Any:
        return self.call_in(self.current, self.now + delay, callback, *args, context=context)

    def create_future(self) -> Any:
        return SimulatedFuture(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> Any:
        if self.ended:
            coro.close()
            raise RuntimeError("the life is over")
        task = SimulatedTask(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """An executor of ours says by itself what becomes of the call; without one it must be something to await."""
        return self.create_task(func(*args)) if executor is None else executor.request(func)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.current.dead:
            self.complaints.append(context)

    # --- what the simulation asks of it

    async def pause(self, seconds: float) -> None:
        future = self.create_future()
        handle = self.call_later(seconds, _wake, future)
        try:
            await future
        finally:
            handle.cancel()

    def call_in(
        self, strand: Strand, when: float, callback: Callback, *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args, context or copy_context(), strand, when)
        if not self.ended:
            heapq.heappush(self._timers, (when, next(self._order), handle))
        return handle

    def suspend(self, strand: Strand) -> None:
        """Nothing of this strand runs until it is resumed as often as it is suspended."""
        strand.suspensions += 1
        strand.halted = True

    def resume(self, strand: Strand) -> None:
        strand.suspensions -= 1
        if strand.suspensions or strand.dead:
            return
        strand.halted = False
        self._ready.extend(strand.backlog)
        strand.backlog = []

    def kill(self, strand: Strand) -> None:
        strand.dead = strand.halted = True
        strand.backlog = []

    def run_until(self, done: Callable[[], bool], deadline: float) -> bool:
        """Runs until `done()` or until the clock passes `deadline`; whether it is done."""
        asyncio.events._set_running_loop(self)
        try:
            while not done():
                if not self._run_next(deadline):
                    return False
            return True
        finally:
            asyncio.events._set_running_loop(None)
            self.current = self.world

    def _run_next(self, deadline: float) -> bool:
        ready = self._ready
        if not ready:
            timers = self._timers
            while timers and timers[0][2].cancelled_:
                heapq.heappop(timers)
            if not timers:
                raise DeadlockError(f"nothing is left to happen at {self.now:.3f}")
            when = timers[0][0]
            if when > deadline:
                self.now = deadline
                return False
            self.now = max(self.now, when)
            while timers and timers[0][0] <= self.now:
                ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.cancelled_:
                continue
            strand = handle.strand
            if strand.halted:
                if not strand.dead:
                    strand.backlog.append(handle)
                continue
            self.steps += 1
            self.current = strand
            handle.context.run(handle.callback, *handle.args)
        return True

    def end(self) -> None:
        """The life is over: whatever is unfinished is dropped without running another line that matters."""
        self.ended = True
        self._ready.clear()
        self._timers.clear()
        # What begins a task in a `finally` asks for the running loop, and is told that it is over.
        asyncio.events._set_running_loop(self)
        try:
            for task in self.tasks:
                if not task.done():
                    _drop(task)
        finally:
            asyncio.events._set_running_loop(None)
        self.tasks.clear()
        self.close()

    def _timer_handle_cancelled(self, handle: Any) -> None:
        return


def _wake(future: SimulatedFuture) -> None:
    if not future.done():
        future.set_result(None)


def _drop(task: SimulatedTask) -> None:
    coroutine: Any = task.get_coro()
    for _ in range(MOST_FINALLIES):
        try:
            coroutine.close()
        except RuntimeError:
            # It awaits in a `finally`: the next `finally` has its turn. Without this, the garbage collector would complain.
            continue
        except BaseException:
            return
        return
