"""Threads in lockstep: the product's own blocking code, run on real threads, one at a time, on the virtual clock.

A thread runs only while the event loop stands still, and the loop only while every thread is parked in a blocking call of
ours. So what a thread does happens at one instant and in one order, and a life with threads replays like any other.
"""

import threading
from collections.abc import Callable
from typing import Any

from tests.proof.simulation.clock import Strand, VirtualLoop

Resume = Callable[[Any], None]
"""Called once by the end of the blocking call: an exception is raised in the thread, all else is returned."""


class KilledError(SystemExit):
    """Ends a thread of a process that is dead. A SystemExit, because that is no error of a thread."""


class LockstepThread:
    """One real thread of a simulated process."""

    running: "LockstepThread | None" = None
    """The one that runs at this moment, if any does."""

    def __init__(self, loop: VirtualLoop, strand: Strand, run: Callable[[], Any], name: str) -> None:
        self.loop = loop
        self.strand = strand
        self._run = run
        self._go = threading.Lock()
        self._parked = threading.Lock()
        self._go.acquire()
        self._parked.acquire()
        self._calls = 0
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._begun = self.ended = False

    def start(self) -> None:
        self.loop.call_in(self.strand, self.loop.now, self._begin)

    def _begin(self) -> None:
        self._begun = True
        LockstepThread.running = self
        self._thread.start()
        self._parked.acquire()
        LockstepThread.running = None

    def _main(self) -> None:
        try:
            self._run()
        except KilledError:
            return
        finally:
            self.ended = True
            self._parked.release()

    def block(self, begin: Callable[[Resume], None], timeout: float | None = None) -> Any:
        """Called by the thread itself: parks it until what it began has ended, or (None) until the timeout."""
        self._calls += 1
        call = self._calls

        def resume(outcome: Any) -> None:
            self.loop.call_in(self.strand, self.loop.now, self._go_on, call, outcome)

        begin(resume)
        if timeout is not None:
            self.loop.call_in(self.strand, self.loop.now + timeout, self._go_on, call, None)
        self._parked.release()
        self._go.acquire()
        outcome, self._outcome = self._outcome, None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _go_on(self, call: int, outcome: Any) -> None:
        if self.ended or call != self._calls:
            # Its time-out came first, or its answer did.
            return
        self._calls += 1
        self._outcome = outcome
        LockstepThread.running = self
        self._go.release()
        self._parked.acquire()
        LockstepThread.running = None

    def destroy(self) -> None:
        """Ends the real thread of a simulated process that is no more."""
        if self._begun and not self.ended:
            self._go_on(self._calls, KilledError())
            self._thread.join()


def running_thread() -> LockstepThread:
    thread = LockstepThread.running
    if thread is None:
        raise AssertionError("a blocking call on the event loop")
    return thread


class LockstepEvent:
    """What `threading.Event` is to the product."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[Resume] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for resume in self._waiting:
            resume(None)
        self._waiting.clear()

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks the calling thread until it is set, or for so many virtual seconds."""
        if not self._set:
            running_thread().block(self._waiting.append, timeout)
        return self._set


def start_thread(loop: VirtualLoop, strand: Strand, run: Callable[[], Any], name: str) -> LockstepThread:
    """A thread that begins in its strand's next turn."""
    thread = LockstepThread(loop, strand, run, name)
    thread.start()
    return thread
