"""Whether a redrive goes on: judged by how the turns that it has put back have ended so far. Pure.

A turn that fails again has cost another run, and is a dead letter once more. So a redrive may put a few turns back first (the
canary) and go on only if enough of them succeed. Later it stops when, of the last `WINDOW` turns that ended, too large a share
has FAILED.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

from turnstile.ops.terminal.output import many

WINDOW = 20
"""How many of the turns that ended last are judged while a redrive goes on."""

LEAST_ENDED = 10
"""With fewer ends than these nothing is judged: a few failures may be of the turns themselves."""

STOP_SHARE = 0.5
"""The share of failures at which a redrive stops by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How some of the turns that were put back have ended: counts."""

    succeeded: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """FAILED ones, by error class."""
    canceled: int = 0
    open: int = 0

    @property
    def total(self) -> int:
        return self.succeeded + self.failed.total() + self.canceled + self.open

    def __str__(self) -> str:
        classes = ", ".join(f"{name} {number}" for name, number in self.failed.most_common(5))
        counts = {
            "succeeded": self.succeeded,
            f"failed again ({classes})": self.failed.total(),
            "canceled": self.canceled,
            "not ended yet": self.open,
        }
        return ", ".join(f"{number} {what}" for what, number in counts.items() if number) or "none"


@dataclass(frozen=True, slots=True)
class GoOn:
    """Put further turns back."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The canary is not decided yet."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Put no further turn back. `reason` is a clause for the operator."""

    reason: str


def judge_canary(ends: Ends, *, least_share: float, time_is_up: bool) -> GoOn | Wait | Stop:
    """Decides as soon as the result is certain: enough have SUCCEEDED, or too few still can. `ends`: of one turn at least."""
    needed, canary = math.ceil(least_share * ends.total), many(ends.total, "canary turn")
    if ends.succeeded >= needed:
        return GoOn()
    if ends.succeeded + ends.open < needed:
        return Stop(f"of {canary}, at least {needed} had to succeed: {ends}")
    if time_is_up:
        return Stop(f"of {canary}, at least {needed} had to succeed in time: {ends}")
    return Wait()


def judge_ends(lately: Ends, *, stop_share: float) -> GoOn | Stop:
    """`lately`: the `WINDOW` turns that ended last. A `stop_share` of 0 never stops. Turns that were cancelled do not count."""
    failed = lately.failed.total()
    ended = lately.succeeded + failed
    if stop_share > 0 and ended >= LEAST_ENDED and failed >= stop_share * ended:
        return Stop(f"of the last {ended} turns that ended {lately}")
    return GoOn()
