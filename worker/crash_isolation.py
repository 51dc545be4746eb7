"""Quarantine: which turns with crashes on their record may run side by side in one process. Pure.

When a process dies, each of its turns is charged a crash, because it is unknown which of them killed the process. A turn that one
more crash would end runs alone: no other turn with a crash on its record runs in its process. So a turn that kills its worker
ends at its crash budget, and the other turns do not (ADR 0003).
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol


class LeftBehind(Protocol):
    """A handler that ignored its cancellation and may still run: an `asyncio.Future`."""

    def done(self) -> bool:
        """Whether it has ended."""

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        """Registers `call` for when it ends."""


class Seat:
    """A place in quarantine, for one run."""

    def __init__(self, crashes: int, leave: Callable[[], None]) -> None:
        self.crashes = crashes
        """How many crashes the turn may have on its record."""
        self._leave: Callable[[], None] | None = leave

    def leave(self, left_behind: LeftBehind | None = None) -> None:
        """Gives the seat back; if its handler ignored its cancellation, when that handler ends. A second call does nothing."""
        if self._leave is None:
            return
        leave, self._leave = self._leave, None
        if left_behind is not None and not left_behind.done():
            left_behind.add_done_callback(lambda _: leave())
        else:
            leave()


class Quarantine:
    """The turns of one process that have crashed a worker before."""

    def __init__(self, max_crashes: int) -> None:
        self._max_crashes = max_crashes
        self._inside = 0
        self._alone = False

    def enter(self, crashes: int) -> Seat | None:
        """A seat for a turn with so many crashes; None if it may not run now beside the turns in quarantine."""
        if not self._needs_place(crashes):
            return Seat(crashes, lambda: None)
        alone = self._runs_alone(crashes)
        if self._alone or (alone and self._inside):
            return None
        self._inside += 1
        self._alone = alone
        return Seat(crashes, self._leave)

    def count_admitted(self, crashes: Iterable[int]) -> int:
        """How many of these could enter now, one after the other."""
        inside, alone, admitted = self._inside, self._alone, 0
        for one in crashes:
            if self._needs_place(one):
                if alone or (self._runs_alone(one) and inside):
                    continue
                inside, alone = inside + 1, self._runs_alone(one)
            admitted += 1
        return admitted

    def _needs_place(self, crashes: int) -> bool:
        # The claim ends a turn at its crash budget, so such a turn does not run.
        return 0 < crashes < self._max_crashes

    def _runs_alone(self, crashes: int) -> bool:
        return crashes + 1 >= self._max_crashes

    def _leave(self) -> None:
        self._inside -= 1
        self._alone = False
