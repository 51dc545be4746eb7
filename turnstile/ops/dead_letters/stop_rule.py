"""Whether a redrive goes on: judged by how the turns that it has put back have ended so far. Pure.

A turn that fails again has cost another run, and is a dead letter once more. So a redrive may put a few turns back first (the
canary) and go on only if enough of them succeed. Later it stops when too many of the last `WINDOW` turns that ended have FAILED.

The numbers are constants; `docs/runbooks/dead-letters.md` names them.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

CANARY_SHARE = 0.9
"""The share of the canary that must succeed."""

CANARY_WAIT_SECONDS = 600.0
"""How long a redrive waits for the canary to end."""

WINDOW = 20
"""A redrive that goes on is judged by this many turns: those that ended last."""

LEAST_ENDED = 10
"""Nothing is judged before this many turns have ended: a few failures may have their causes in the turns themselves."""

STOP_SHARE = 0.5
"""The share of failures at which a redrive stops."""


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


def judge_canary(ends: Ends, *, time_is_up: bool) -> GoOn | Wait | Stop:
    """Decides as soon as the result is certain: enough have SUCCEEDED, or too few still can. `ends`: of one turn at least."""
    needed = math.ceil(CANARY_SHARE * ends.total)
    if ends.succeeded >= needed:
        return GoOn()
    rule = f"at least {needed} of {ends.total} must succeed"
    if ends.succeeded + ends.open < needed:
        return Stop(f"the canary failed: {ends}; {rule}")
    return Stop(f"the canary did not end in time: {ends}; {rule}") if time_is_up else Wait()


def judge_ends(lately: Ends) -> GoOn | Stop:
    """`lately`: the `WINDOW` turns that ended last. Turns that were cancelled do not count."""
    failed = lately.failed.total()
    ended = lately.succeeded + failed
    if ended >= LEAST_ENDED and failed >= STOP_SHARE * ended:
        return Stop(f"too many turns fail again: of the last {ended} that ended, {lately}")
    return GoOn()
