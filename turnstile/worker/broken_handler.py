"""A bad deploy does not empty the queue into the DLQ: a worker whose handler fails with the same error in each of its first turns
stops taking turns.

    untried   no turn has ended as the handler's author foresees: unforeseen errors are counted
    broken    MOST_ALIKE turns have met the same error: turns are handed back, and the worker takes none for a while
    works     a turn has ended as foreseen: from then on an error is that of its turn

Only first turns say that the cause is the code: later an input, or what the handler calls, may be it. Clients can send inputs
that the handler does not expect, so a broken worker tries again from time to time: one turn that ends as foreseen is enough.
"""

import asyncio
from enum import Enum, auto
from uuid import UUID

from turnstile.handlers.handler import COMPENSATION
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.outcome import Failed, Outcome, Stopped, StopReason, TimedOut
from turnstile.worker.queue_pause import QueuePause

MOST_ALIKE = 3
"""So many different turns meet the same error before the worker stops. Those before the last are settled as usual."""

AGAIN_SECONDS = 60.0
"""How long a worker with a broken handler takes no turns. Then it takes some, and stops at the first unforeseen error."""


class _State(Enum):
    UNTRIED = auto()
    BROKEN = auto()
    WORKS = auto()


class BrokenHandlerWatch:
    """Belongs to the worker's event loop."""

    def __init__(self, pause: QueuePause, *, again_seconds: float = AGAIN_SECONDS) -> None:
        self._pause = pause
        self._again_seconds = again_seconds
        self._state = _State.UNTRIED
        self._cause = ""
        self._error_class = ""
        self._turns: set[UUID] = set()
        self._again: asyncio.TimerHandle | None = None

    @property
    def error_class(self) -> str | None:
        """The class of the error that the handler meets; None unless the handler is broken. For any thread."""
        return self._error_class if self._state is _State.BROKEN else None

    def judge(self, turn: ClaimedTurn, outcome: Outcome) -> Outcome:
        """The outcome to settle: the handler's own, or that the turn is handed back because the handler is broken."""
        if self._state is _State.WORKS or turn.kind == COMPENSATION:
            return outcome
        match outcome:
            case Failed(unforeseen=True):
                return self._count(turn, outcome)
            case Stopped() | TimedOut():
                return outcome
            case _:
                self._end()
                return outcome

    def _count(self, turn: ClaimedTurn, failed: Failed) -> Outcome:
        cause = f"{failed.error_class} {_place(failed)}"
        if self._state is _State.UNTRIED:
            if cause != self._cause:
                self._cause = cause
                self._turns.clear()
            self._turns.add(turn.id)
            if len(self._turns) < MOST_ALIKE:
                return failed
        self._stop(failed)
        return Stopped(StopReason.BROKEN_HANDLER)

    def _stop(self, failed: Failed) -> None:
        if self._again is not None:
            # One of several turns that began before the stop.
            return
        self._state = _State.BROKEN
        self._error_class = failed.error_class
        log.critical(
            "worker.handler_broken",
            error_class=failed.error_class,
            where=_place(failed),
            turns=MOST_ALIKE,
            again_in_seconds=self._again_seconds,
            hint="each of the first turns met this error: the worker takes no turns; deploy a handler that works",
        )
        self._pause.set_broken(True)
        self._again = asyncio.get_running_loop().call_later(self._again_seconds, self._try_again)

    def _try_again(self) -> None:
        self._again = None
        log.warning("worker.tries_handler_again", error_class=self._error_class)
        self._pause.set_broken(False)

    def _end(self) -> None:
        if self._state is _State.BROKEN:
            log.warning("worker.handler_works", error_class=self._error_class)
        self._state = _State.WORKS
        if self._again is not None:
            self._again.cancel()
        self._pause.set_broken(False)


def _place(failed: Failed) -> str:
    """The line of code that raised the error; empty where the handler has returned."""
    lines = [line for line in (failed.traceback or "").splitlines() if line.startswith("  File ")]
    return lines[-1].strip() if lines else ""
