"""Quarantine: which turns with crashes on their record may run side by side in one process. Pure.

When a process dies, each of its turns is charged a crash, because it is unknown which of them killed the process. A turn that one
more crash would end runs alone: no other turn with a crash on its record runs in its process. So a turn that kills its worker
ends at its crash budget, and the other turns do not (ADR 0003).
"""

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Seat:
    """A place in quarantine, for one run."""

    crashes: int
    """How many crashes the turn may have on its record."""
    _taken: "set[Seat]"

    def leave(self, left_behind: Any = None) -> None:
        """Gives the seat back. A second call does nothing.

        `left_behind`: the future of a handler that ignored its cancellation. The seat stays taken until that handler ends.
        """
        taken, self._taken = self._taken, set()
        if left_behind is None:
            taken.discard(self)
        else:
            left_behind.add_done_callback(lambda _: taken.discard(self))


class Quarantine:
    """The turns of one process that have crashed a worker before."""

    def __init__(self, max_crashes: int) -> None:
        self._max_crashes = max_crashes
        self._taken: set[Seat] = set()

    def enter(self, crashes: int) -> Seat | None:
        """A seat for a turn with this many crashes; None if it may not run now together with the turns in
        quarantine."""
        seat = Seat(crashes, self._taken)
        # The claim ends a turn at its crash budget, so such a turn does not run.
        if 0 < crashes < self._max_crashes:
            if self._taken and any(self._runs_alone(one) for one in (seat, *self._taken)):
                return None
            self._taken.add(seat)
        return seat

    def _runs_alone(self, seat: Seat) -> bool:
        return seat.crashes + 1 >= self._max_crashes
