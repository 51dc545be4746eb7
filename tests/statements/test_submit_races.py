"""Submits at the same moment."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.turn.identifiers import idempotency_key

RESEND_SECONDS = 60.0
KEY = idempotency_key("once")


async def submit_all(database: Database, *submissions: Submission) -> list[Accepted]:
    answers = await submit(database, submissions, resend_seconds=RESEND_SECONDS)
    assert all(isinstance(answer, Accepted) for answer in answers)
    return [answer for answer in answers if isinstance(answer, Accepted)]


async def seqs(database: Database, session_id: str = "s") -> list[int | None]:
    rows = await database.fetch("SELECT seq FROM turns WHERE session_id = %(s)s ORDER BY seq", {"s": session_id})
    return [row["seq"] for row in rows]


async def test_mixed_batches_over_the_same_sessions_do_not_block_each_other_and_leave_no_gap(
    database: Database, settings: Settings
) -> None:
    dice = random.Random(7)
    later = datetime.now(UTC) + timedelta(hours=1)

    def batch(number: int) -> list[Submission]:
        made = [make_submission(settings.queue, f"s-{session}") for session in range(10)]
        # The same five keys in every batch: each of them makes one turn, in whichever batch comes first.
        made += [make_submission(settings.queue, f"s-{key}", "keyed", key=f"key:{key}") for key in range(5)]
        made += [make_submission(settings.queue, f"s-{number % 10}", "later", execute_at=later)]
        dice.shuffle(made)
        return made

    answers = await asyncio.gather(*(submit_all(database, *batch(number)) for number in range(20)))

    assert sum(not accepted.replayed for batch in answers for accepted in batch) == 20 * 10 + 5 + 20
    for session in range(10):
        placed = [seq for seq in await seqs(database, f"s-{session}") if seq is not None]
        assert placed == list(range(1, 20 + (session < 5) + 1))


async def test_of_fifty_equal_requests_at_once_one_makes_a_turn(database: Database, settings: Settings) -> None:
    equal = [make_submission(settings.queue, key=KEY) for _ in range(50)]

    answers = [answer for (answer,) in await asyncio.gather(*(submit_all(database, one) for one in equal))]

    assert len({answer.turn_id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert await seqs(database) == [1]


@pytest.mark.parametrize("key", [None, KEY])
async def test_the_same_submission_ten_times_at_once_makes_one_turn(
    database: Database, settings: Settings, key: str | None
) -> None:
    """As when the first call is still under way on a connection that was given up. The caller repeats a refused insert."""
    submission = make_submission(settings.queue, key=key)

    async def ask() -> list[Accepted]:
        try:
            return await submit_all(database, submission)
        except psycopg.errors.UniqueViolation:
            return await submit_all(database, submission)

    answers = await asyncio.gather(*(ask() for _ in range(10)))

    assert {answer.turn_id for (answer,) in answers} == {submission.turn_id}
    assert await seqs(database) == [1]
