"""When turns are due, and in which sessions."""

import itertools
import random
from collections import Counter
from statistics import mean, pstdev

from tests.proof.load.arrivals import TURNS_A_SESSION, Pace, Talk, arrivals

PACE = Pace(per_second=50.0, burst_every=60.0, burst_seconds=5.0, burst_factor=2.0)


def count(times: list[float], begun: float, ended: float) -> int:
    return sum(begun <= at < ended for at in times)


def test_a_burst_lies_in_the_middle_of_each_period() -> None:
    assert PACE.bursts(120.0) == [(30.0, 35.0), (90.0, 95.0)]
    assert PACE.bursts(33.0) == [(30.0, 33.0)]
    assert PACE.bursts(29.0) == []
    assert [PACE.rate(second) for second in (0.0, 29.9, 30.0, 34.9, 35.0, 92.0)] == [50, 50, 100, 100, 50, 100]


def test_as_many_turns_are_due_as_the_pace_says_and_more_in_bursts() -> None:
    times = list(arrivals(PACE, 600.0, random.Random(1)))

    bursts = PACE.bursts(600.0)
    in_bursts = sum(count(times, *burst) for burst in bursts)
    # Four standard deviations of a count of independent events.
    assert abs(in_bursts - 5000) < 4 * 5000**0.5
    assert abs(len(times) - in_bursts - 27_500) < 4 * 27_500**0.5


def test_turns_are_due_independently_of_one_another() -> None:
    """The gaps of an even flow of independent events spread as much as they are long; those of a metronome do not."""
    pace = Pace(per_second=50.0, burst_factor=1.0)
    gaps = [after - before for before, after in itertools.pairwise(arrivals(pace, 600.0, random.Random(2)))]

    assert min(gaps) > 0
    assert 0.95 < pstdev(gaps) / mean(gaps) < 1.05


def test_a_seed_makes_the_same_load_again() -> None:
    assert list(arrivals(PACE, 60.0, random.Random(3))) == list(arrivals(PACE, 60.0, random.Random(3)))
    assert list(arrivals(PACE, 60.0, random.Random(3))) != list(arrivals(PACE, 60.0, random.Random(4)))


def test_each_session_gets_its_turns_and_no_more() -> None:
    talk = Talk("t", random.Random(1), sessions=3, handler_seconds=0.1)

    asked = [talk.next() for _ in range(500)]

    turns = Counter((ask.tenant, ask.session) for ask in asked)
    assert max(turns.values()) == TURNS_A_SESSION
    assert sum(many < TURNS_A_SESSION for many in turns.values()) <= 3
    assert len({ask.key for ask in asked}) == 500


def test_handlers_take_as_long_as_was_asked_for_on_average() -> None:
    talk = Talk("t", random.Random(1), sessions=3, handler_seconds=0.2)

    contents = [talk.next().content for _ in range(2000)]

    takes = [one["seconds"] if one["do"] == "sleep" else one["words"] * one["pause"] for one in contents]
    assert min(takes) > 0.09
    assert max(takes) < 0.31
    assert abs(mean(takes) - 0.2) < 0.01
