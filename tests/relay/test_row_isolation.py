"""Stepping round the rows that a statement is refused for."""

from collections.abc import Sequence
from uuid import UUID

import psycopg
import pytest

from turnstile.relay.fault_isolation import (
    LEFT_OUT_SECONDS,
    LONGEST_LEFT_OUT_SECONDS,
    MOST_FAILURES,
    MOST_LEFT_OUT,
    LeftOut,
    step_around,
)

ROWS = [UUID(int=number) for number in range(100)]


@pytest.mark.parametrize("bad", [[], [0, 99], list(range(0, 100, 2))])
async def test_all_rows_are_written_except_the_refused_ones(bad: list[int]) -> None:
    refused = {ROWS[number] for number in bad}
    left_out = LeftOut()

    async def write(some: Sequence[UUID]) -> Sequence[UUID]:
        if refused & set(some):
            raise psycopg.errors.UniqueViolation
        return some

    written = await step_around("place", left_out, dict.fromkeys(ROWS, "1" * 32), write)

    assert written == [row for row in ROWS if row not in refused]
    assert set(left_out.at(float("-inf"))) == refused


async def test_a_statement_that_fails_for_all_rows_is_not_repeated_for_ever() -> None:
    tries = 0

    async def write(some: Sequence[UUID]) -> Sequence[UUID]:
        nonlocal tries
        tries += 1
        raise psycopg.errors.InsufficientPrivilege

    assert await step_around("place", LeftOut(), {UUID(int=number): "" for number in range(10_000)}, write) == []
    assert tries == MOST_FAILURES


def test_a_row_is_left_out_for_longer_each_time() -> None:
    left_out, row, now = LeftOut(), UUID(int=1), 0.0
    pauses = []
    for _ in range(8):
        left_out.add(row, now)
        pauses.append(next(seconds for seconds in range(0, 4000, 60) if not left_out.at(now + seconds)))
        now += pauses[-1]

    assert pauses[:3] == [LEFT_OUT_SECONDS, 2 * LEFT_OUT_SECONDS, 4 * LEFT_OUT_SECONDS]
    assert pauses[-1] == LONGEST_LEFT_OUT_SECONDS


def test_the_rows_that_are_left_out_are_bounded() -> None:
    left_out = LeftOut()
    for number in range(MOST_LEFT_OUT + 10):
        left_out.add(UUID(int=number), 0.0)

    assert left_out.at(0.0) == [UUID(int=number) for number in range(10, MOST_LEFT_OUT + 10)]
