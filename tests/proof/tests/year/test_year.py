"""A short year keeps what it must, and its verdict convicts tables that go on growing."""

from dataclasses import replace

import pytest

from tests.proof.year.__main__ import find_problems
from tests.proof.year.year import Plan, Reading, live_through
from tests.support.stacks.stack import Stack
from turnstile.dev.stack.stack import LocalStack

READING = Reading(
    day=10, turns=1000, sessions=200, table_megabytes=10.0, index_megabytes=5.0, dead_rows=0, claim_milliseconds=1.0,
    claim_pages=40, delete_milliseconds=5.0, longest_delete_milliseconds=9.0, deleted_a_second=1000.0,
)  # fmt: skip
PLAN = Plan(days=30, turns_a_day=100, retention_days=9, every_days=10)


async def test_after_the_retention_begins_there_are_as_many_turns_as_it_keeps(stack: Stack) -> None:
    if not isinstance(stack, LocalStack):
        pytest.skip("it makes a database in the embedded stack")
    plan = Plan(days=8, turns_a_day=50, retention_days=3, every_days=4)

    first, last = await live_through(stack, plan, lambda _: None)

    assert [(one.day, one.turns, one.sessions) for one in (first, last)] == [(4, 150, 30), (8, 150, 30)]
    assert last.longest_delete_milliseconds > 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"table_megabytes": 30.0}, "grew from 15 to 35 MB"),
        ({"turns": 2000}, "the turns grew"),
        ({"claim_pages": 44}, "44 pages"),
    ],
)
def test_growth_behind_the_retention_is_a_problem(change: dict[str, float], problem: str) -> None:
    found = find_problems(PLAN, [READING, replace(READING, day=30, **change)])  # type: ignore[arg-type]

    assert len(found) == 1
    assert problem in found[0]


def test_a_steady_year_is_none() -> None:
    assert find_problems(PLAN, [replace(READING, day=5, turns=1), READING, replace(READING, day=30)]) == []


def test_a_year_without_a_steady_state_says_nothing() -> None:
    assert "too short" in find_problems(PLAN, [READING])[0]
