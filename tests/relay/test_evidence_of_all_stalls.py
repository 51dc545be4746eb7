"""A property of the evidence: whatever Postgres does, no lease of a process that beats is over where another may mark.

Two processes beat as `worker.heartbeat` does, one of them judges. Between two stalls Postgres responds for CHANCE_SECONDS.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto

from hypothesis import given
from hypothesis import strategies as st

from turnstile.relay.renewal_evidence import RenewalEvidence
from turnstile.worker.heartbeat import AGAIN_SECONDS, PATIENCE_SECONDS

LEASE = 30.0
HEARTBEAT = 10.0
CHANCE_SECONDS = HEARTBEAT + 2 * AGAIN_SECONDS
"""For so long Postgres responds between two stalls, at least. A call of the first stall may have no answer for a heartbeat; its
process then asks once more. With less, the second stall may meet that call, too, and no call of the process that judges."""
LIFE_SECONDS = 600.0
ORIGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Kind(Enum):
    REFUSES = auto()
    """There is no connection."""
    HANGS = auto()
    """Calls are answered at the end of the stall, as behind a lock or a COMMIT that waits."""
    SILENT = auto()
    """Calls are never answered."""


@dataclass(frozen=True)
class Stall:
    begin: float
    end: float
    kind: Kind


@dataclass(frozen=True)
class Beat:
    asked: float
    over: float
    """When it was answered, or has failed."""
    worked: bool


@dataclass(frozen=True)
class Clock:
    """The database's, which is set once."""

    set_at: float
    set_by: float

    def read(self, now: float) -> float:
        return now + (self.set_by if now >= self.set_at else 0.0)


def beats(start: float, takes: float, stalls: Sequence[Stall]) -> Iterator[Beat]:
    """The renewals of a process that lives, in the order in which they were asked for."""
    asked = start
    while asked < LIFE_SECONDS:
        beat = _beat(asked, takes, stalls)
        yield beat
        asked = beat.over + (HEARTBEAT if beat.worked else AGAIN_SECONDS)


def _beat(asked: float, takes: float, stalls: Sequence[Stall]) -> Beat:
    met = next((stall for stall in stalls if stall.begin < asked + takes and asked < stall.end), None)
    match met:
        case None:
            return Beat(asked, asked + takes, worked=True)
        case Stall(kind=Kind.REFUSES):
            return Beat(asked, asked + PATIENCE_SECONDS, worked=False)
        case Stall(kind=Kind.HANGS) if met.end - asked <= HEARTBEAT:
            return Beat(asked, met.end, worked=True)
        case _:
            return Beat(asked, asked + HEARTBEAT, worked=False)


@st.composite
def lives_of_postgres(draw: st.DrawFn) -> list[Stall]:
    """The stalls of ten minutes."""
    stalls, now = [], 0.0
    for responds, lasts, kind in draw(
        st.lists(st.tuples(st.floats(CHANCE_SECONDS, 200.0), st.floats(0.1, 100.0), st.sampled_from(Kind)), max_size=25)
    ):
        stalls.append(Stall(now + responds, now + responds + lasts, kind))
        now = stalls[-1].end
    return stalls


@given(
    stalls=lives_of_postgres(),
    starts=st.tuples(st.floats(0.0, HEARTBEAT), st.floats(0.0, HEARTBEAT)),
    takes=st.tuples(st.floats(0.001, 0.5), st.floats(0.001, 0.5)),
    clock=st.builds(Clock, set_at=st.floats(0.0, LIFE_SECONDS), set_by=st.floats(-300.0, 300.0)),
)
def test_no_lease_of_a_process_that_beats_is_over_where_another_may_mark(
    stalls: list[Stall], starts: tuple[float, float], takes: tuple[float, float], clock: Clock
) -> None:
    renewed = [beat for beat in beats(starts[0], takes[0], stalls) if beat.worked]
    evidence, judging = RenewalEvidence(LEASE, HEARTBEAT), list(beats(starts[1], takes[1], stalls))
    for beat, following in zip(judging, [*judging[1:], Beat(LIFE_SECONDS, LIFE_SECONDS, worked=True)], strict=True):
        if beat.worked:
            evidence.worked(ORIGIN + timedelta(seconds=clock.read(beat.asked)), beat.asked, beat.over)
        else:
            evidence.failed()
        for now in _looks(beat.over, following.over):
            last = max((one for one in renewed if one.over <= now), key=lambda one: one.over, default=None)
            judgement = evidence.judge(now)
            if judgement is None or last is None:
                continue
            by = min((judgement.by - ORIGIN).total_seconds(), clock.read(now))
            assert clock.read(last.asked) + LEASE >= by, f"marked at {now:g}"


def _looks(since: float, until: float) -> Iterator[float]:
    """The rounds of a relay."""
    for number in range(math.ceil(until - since)):
        yield since + number
