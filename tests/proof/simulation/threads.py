"""Threads in lockstep: the product's own blocking code, run on real threads, one at a time, on the virtual clock.

A thread runs only while the event loop stands still, and the loop only while every thread waits in `pause_thread`. So what a
thread does happens at one instant and in one order, and a life with threads replays like any other.
"""

import threading
from collections.abc import Callable
from typing import Any

from tests.proof.simulation.clock import Strand, VirtualLoop


class KilledError(SystemExit):
    """Ends a thread of a process that is dead. A SystemExit, because that is no error of a thread."""


class LockstepThread:
    """One real thread of a simulated process. It begins in its strand's next turn."""

    running: "LockstepThread | None" = None
    """The one that runs at this moment, if any does."""

    def __init__(self, loop: VirtualLoop, strand: Strand, run: Callable[[], Any]) -> None:
        self._loop = loop
        self._strand = strand
        self._run = run
        self._go = threading.Semaphore(0)
        self._parked = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._begun = self._ended = self._killed = False
        loop.call_in(strand, loop.now, self._begin)

    def _begin(self) -> None:
        self._begun = True
        self._let_run(self._thread.start)

    def _let_run(self, go: Callable[[], object]) -> None:
        LockstepThread.running = self
        go()
        self._parked.acquire()
        LockstepThread.running = None

    def _main(self) -> None:
        try:
            self._run()
        except KilledError:
            return
        finally:
            self._ended = True
            self._parked.release()

    def park(self, seconds: float | None) -> None:
        """Called by the thread itself."""
        if seconds is not None:
            self._loop.call_in(self._strand, self._loop.now + seconds, self._let_run, self._go.release)
        self._parked.release()
        self._go.acquire()
        if self._killed:
            raise KilledError

    def destroy(self) -> None:
        """Ends the real thread of a simulated process that is no more."""
        if self._begun and not self._ended:
            self._killed = True
            self._let_run(self._go.release)
            self._thread.join()


def pause_thread(seconds: float | None) -> None:
    """Blocks the calling thread for so many virtual seconds; None: for ever."""
    thread = LockstepThread.running
    if thread is None:
        raise AssertionError("a blocking call on the event loop")
    thread.park(seconds)
