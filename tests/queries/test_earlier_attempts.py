"""The attempt before another: of the same generation, of an earlier one with its own trace, or of a worker that was lost."""

from uuid import uuid4

import pytest

from tests.statements.calls import FAILURE
from tests.support.claims import claimed, expire_leases, settle_one, submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.earlier_attempts import read_earlier_attempts
from turnstile.statements.revive import revive
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

AGAIN = {
    "retried": Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, fault=True),
    "snoozed": Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.SNOOZED, refund=True),
}


async def before(database: Database, turn: ClaimedTurn) -> object:
    [found] = await read_earlier_attempts(database, [(turn.id, turn.fence)])
    return found


async def test_a_first_attempt_and_an_unknown_turn_have_none(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "x")
    turn = await claimed(database, settings)

    assert not turn.begun_before
    assert await read_earlier_attempts(database, [(turn.id, turn.fence), (uuid4(), 7)]) == [None, None]


@pytest.mark.parametrize("outcome", AGAIN)
async def test_an_attempt_that_was_put_off_or_failed_comes_before_the_next(
    database: Database, settings: Settings, outcome: str
) -> None:
    await submit_turns(database, settings, "x")
    first = await claimed(database, settings)
    await settle_one(database, settings, first, AGAIN[outcome])
    second = await claimed(database, settings)
    await settle_one(database, settings, second, AGAIN[outcome])
    third = await claimed(database, settings)

    assert (second.begun_before, third.begun_before) == (True, True)
    assert await before(database, second) == first.trace.attempt(first.fence)
    assert await before(database, third) == second.trace.attempt(second.fence)


async def test_a_lost_attempt_comes_before_the_takeover(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "x")
    lost = await claimed(database, settings)
    await expire_leases(database)

    assert await before(database, turn := await claimed(database, settings)) == lost.trace.attempt(lost.fence)
    assert turn.begun_before


async def test_after_redrives_each_attempt_is_found_in_the_trace_that_it_had(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "x")
    runs = [await claimed(database, settings)]
    for generation in (1, 2):
        await settle_one(database, settings, runs[-1], FAILURE)
        trace = start_trace((generation << 150) + generation)
        await revive(database, [(runs[-1].id, generation)], [trace], expires_in_seconds=[60.0], resend_seconds=60.0)
        runs.append(await claimed(database, settings))

    assert len({run.trace_id for run in runs}) == 3
    assert [run.begun_before for run in runs] == [False, False, False]
    found = await read_earlier_attempts(database, [(run.id, run.fence) for run in runs])
    assert found == [None, *(run.trace.attempt(run.fence) for run in runs[:2])]
