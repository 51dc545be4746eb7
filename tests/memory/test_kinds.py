"""How long items live by kind and priority, and how full is full: pure decisions of the working memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.memory.kinds import (
    CONTEXT_LIFETIME,
    DAY,
    HOUR,
    KINDS,
    LOW_PRIORITY,
    MINUTE,
    Pressure,
    find_kind,
    is_shed,
    judge,
    time_to_live,
)

NONE, HIGH, CRITICAL = Pressure
kinds = st.sampled_from(sorted(KINDS))
priorities = st.integers(1, 10)


@pytest.mark.parametrize(
    ("kind", "usual", "shortest", "longest"),
    [("item", 15 * MINUTE, MINUTE, 24 * HOUR), ("result", 5 * MINUTE, MINUTE, 30 * MINUTE),
     ("state", 30 * MINUTE, 5 * MINUTE, 12 * HOUR)],
)  # fmt: skip
def test_the_table_of_the_source_document(kind: str, usual: float, shortest: float, longest: float) -> None:
    asked = [time_to_live(find_kind(kind), wanted, 5, NONE) for wanted in (None, 0.001, 1e9)]

    assert asked == [usual, shortest, longest]
    assert not find_kind(kind).durable


def test_contexts_live_an_hour_and_between_a_quarter_and_a_week() -> None:
    assert [CONTEXT_LIFETIME.chosen(wanted) for wanted in (None, 1, 1e9)] == [HOUR, 15 * MINUTE, 7 * DAY]


@given(kinds, priorities, st.none() | st.floats(0.001, 1e9), st.sampled_from(Pressure))
def test_no_time_to_live_is_out_of_bounds(kind: str, priority: int, wanted: float | None, pressure: Pressure) -> None:
    lifetime = find_kind(kind).lifetime

    assert lifetime.shortest <= time_to_live(find_kind(kind), wanted, priority, pressure) <= lifetime.longest


@given(kinds)
def test_a_higher_priority_lives_longer(kind: str) -> None:
    times = [time_to_live(find_kind(kind), None, priority, NONE) for priority in range(1, 11)]

    assert times == sorted(times)
    assert (times[0], times[4], times[9]) == (
        KINDS[kind].lifetime.usual / 2, KINDS[kind].lifetime.usual, 2 * KINDS[kind].lifetime.usual
    )  # fmt: skip


@given(kinds, priorities, st.sampled_from(Pressure))
def test_only_volatile_items_of_low_priority_feel_the_pressure(kind: str, priority: int, pressure: Pressure) -> None:
    goes_first = priority <= LOW_PRIORITY and not KINDS[kind].durable
    usual = time_to_live(find_kind(kind), 600, priority, NONE)

    assert is_shed(KINDS[kind], priority, pressure) is (goes_first and pressure is CRITICAL)
    if not goes_first:
        assert time_to_live(find_kind(kind), 600, priority, pressure) == usual
    elif pressure is not NONE:
        assert time_to_live(find_kind(kind), 600, priority, pressure) == KINDS[kind].lifetime.shortest


@pytest.mark.parametrize("wanted", [0, -1, float("inf"), float("nan")])
def test_an_invalid_time_to_live_is_refused(wanted: float) -> None:
    with pytest.raises(ValueError, match="ttl"):
        time_to_live(find_kind("item"), wanted, 5, NONE)


def test_an_unknown_kind_is_refused_by_naming_the_known() -> None:
    with pytest.raises(ValueError, match="item, result, state, fact"):
        find_kind("dream")


@pytest.mark.parametrize(
    ("before", "ratio", "after"),
    [
        (NONE, 0.79, NONE), (NONE, 0.80, HIGH), (NONE, 0.90, CRITICAL), (NONE, 2.0, CRITICAL),
        (HIGH, 0.76, HIGH), (HIGH, 0.74, NONE), (HIGH, 0.89, HIGH),
        (CRITICAL, 0.86, CRITICAL), (CRITICAL, 0.84, HIGH), (CRITICAL, 0.5, NONE),
        (CRITICAL, None, NONE),
    ],
)  # fmt: skip
def test_a_level_is_reached_at_its_threshold_and_left_below_it(
    before: Pressure, ratio: float | None, after: Pressure
) -> None:
    assert judge(before, ratio) is after
