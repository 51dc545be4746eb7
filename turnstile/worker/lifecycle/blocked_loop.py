"""A handler that blocks the event loop is named: one line `worker.loop_blocked`, with the stack, while the block lasts.

An async handler that calls something blocking stops every turn of its worker, and nothing in its own log says why. The
heartbeat's thread looks every third of a lease, which is too seldom, and a slow look must not delay a lease. So a thread of its
own asks the loop four times a second to answer. That costs the loop four empty callbacks a second; a stack is read only during a
block.

A block that holds the interpreter's lock, or a process that stands still as a whole, stops this thread as well: its time does not
count, because no stack could be read in it.
"""

import asyncio
import sys
import threading
import time
import traceback
from uuid import UUID

from turnstile.telemetry.metrics import EVENT_LOOP_BLOCKED
from turnstile.telemetry.own_log import log
from turnstile.worker.attempt.attempt import Attempt, ids_of

BLOCKED_SECONDS = 1.0
"""The loop counts as blocked when it has not answered for this long. Shorter blocks are never logged."""
LOOK_SECONDS = 0.25
"""A block that exceeds BLOCKED_SECONDS by twice this is always logged."""
LINE_SECONDS = 60.0
"""At most one line a minute, however often the loop is blocked."""
FRAMES = 20
"""Most frames of the stack that are logged, from the innermost out."""

ATTEMPT_FILE = Attempt.run.__code__.co_filename
"""In a stack, the last frame of this file calls the handler."""


class BlockedLoopWatch:
    """Create it on the event loop's thread, which is the thread that it watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: str) -> None:
        self._loop = loop
        self._queue = queue
        self._thread_id = threading.get_ident()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="blocked loop", daemon=True)
        self._looked_at = self._asked_at = time.monotonic()
        self._answered_at: float | None = self._asked_at
        self._is_blocked = False
        self._turn: dict[str, str] = {}
        """The ids of the turn whose handler blocks the loop, and of its trace."""
        self._counted_seconds = 0.0
        """The seconds of the present block that are counted already."""
        self._blocks = 0
        self._line_at: float | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, without waiting for it."""
        self._stopping.set()

    def look(self) -> None:
        """Asks the loop to answer, or notices that it has not answered. Raises RuntimeError if the loop is closed."""
        now = time.monotonic()
        stood_still = max(0.0, now - self._looked_at - 2 * LOOK_SECONDS)
        self._looked_at = now
        if self._answered_at is not None:
            if self._is_blocked:
                self._count(self._answered_at)
            self._is_blocked = False
            self._counted_seconds = 0.0
            self._answered_at = None
            self._asked_at = now
            self._loop.call_soon_threadsafe(self._answer)
            return
        self._asked_at += stood_still
        if now - self._asked_at >= BLOCKED_SECONDS and not self._is_blocked:
            self._turn = ids_of(asyncio.current_task(self._loop))
            self._is_blocked = True
            self._blocks += 1
            if self._line_at is None or now - self._line_at >= LINE_SECONDS:
                self._report(now)
        if self._is_blocked:
            # While it lasts: the watchdog may end the process in it.
            self._count(now)

    def blocked_for(self) -> float:
        """How long the loop has been blocked, in seconds; 0 below BLOCKED_SECONDS. For any thread."""
        # The answer is read first: when the loop has answered since, at worst the block that has just ended is
        # reported.
        if self._answered_at is None and self._is_blocked:
            return time.monotonic() - self._asked_at
        return 0.0

    def blocked_by(self) -> UUID | None:
        """The turn whose handler blocks the loop; None if it is not blocked, or it is not known by whom. For any thread."""
        turn = self._turn
        return UUID(turn["turn_id"]) if turn and self.blocked_for() else None

    def _count(self, until: float) -> None:
        seconds = max(until - self._asked_at, self._counted_seconds)
        EVENT_LOOP_BLOCKED.add(seconds - self._counted_seconds, self._queue)
        self._counted_seconds = seconds

    def _answer(self) -> None:
        self._answered_at = time.monotonic()

    def _report(self, now: float) -> None:
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 - documented, and nothing else gives it
        if frame is None:
            return
        # Files, lines and source, no values.
        stack = "".join(traceback.format_list(_from_handler_on(traceback.extract_stack(frame, FRAMES))))
        seconds = round(now - self._asked_at, 2)
        log.warning("worker.loop_blocked", seconds=seconds, blocks=self._blocks, stack=stack, **self._turn)
        self._line_at = now
        self._blocks = 0

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self.look()
            except RuntimeError:
                # The loop is closed, and the process ends.
                return
            except Exception:
                # A defect of this program. The next block must still be named.
                log.exception("worker.blocked_loop_watch_failed")


def _from_handler_on(stack: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    # All frames if no call of a handler is among them: of another task, or deep within a handler.
    calls = [place for place, frame in enumerate(stack, start=1) if frame.filename == ATTEMPT_FILE]
    return stack[max(calls, default=0) :] or stack
