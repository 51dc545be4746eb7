"""Halting under concurrency: sessions are locked before turns, and only by what may halt them."""

import asyncio
from uuid import uuid4

import pytest

from tests.statements.calls import FAILURE, SUCCESS
from tests.support.claims import expire_leases
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.row_locks import HANGS, rows_locked
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.sessions.halted_session import retry, skip
from turnstile.statements.claim import EndedAtClaim, NoClaim, claim
from turnstile.statements.settle import RowLocked, Settled, SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus


async def claimed(database: Database, settings: Settings, session_id: str = "s") -> ClaimedTurn:
    await submit(database, [make_submission(settings.queue, session_id)], resend_seconds=60)
    (turn,) = await claim(database, make_terms(settings), [make_claim(session_id)])
    assert isinstance(turn, ClaimedTurn)
    return turn


async def settle_one(
    database: Database, settings: Settings, turn: ClaimedTurn, settlement: Settlement, *, halt: bool
) -> TurnStatus:
    request = SettleRequest(turn=turn, settlement=settlement, more=True, next_claim_id=uuid4())
    (answer,) = await settle(database, make_terms(settings, halt=halt), [request])
    assert isinstance(answer, Settled)
    return answer.status


async def test_a_settle_that_halts_skips_a_locked_session_and_locks_no_turn_of_it(
    database: Database, settings: Settings
) -> None:
    turn = await claimed(database, settings)
    with rows_locked(settings, table="sessions") as other:
        request = SettleRequest(turn=turn, settlement=FAILURE, more=True, next_claim_id=uuid4())
        answers = await settle(database, make_terms(settings, halt=True), [request])

        assert answers == [RowLocked()]
        # What a cancel does next.
        other.execute("SELECT FROM turns FOR NO KEY UPDATE NOWAIT")
        other.commit()

    assert await settle_one(database, settings, turn, FAILURE, halt=True) is TurnStatus.FAILED
    [row] = await database.fetch("SELECT halted_by FROM sessions", {})
    assert row["halted_by"] == turn.id


@pytest.mark.parametrize(
    ("settlement", "halt"), [(FAILURE, False), (SUCCESS, True)], ids=["failure, no halt", "success, halting queue"]
)
async def test_a_settle_that_halts_nothing_locks_no_session(
    database: Database, settings: Settings, settlement: Settlement, halt: bool
) -> None:
    turn = await claimed(database, settings)
    with rows_locked(settings, table="sessions"):
        assert await settle_one(database, settings, turn, settlement, halt=halt) is settlement.status


async def test_a_claim_that_would_halt_a_locked_session_skips_it_and_claims_the_others(
    database: Database, settings: Settings
) -> None:
    lost = await claimed(database, settings)
    await submit(database, [make_submission(settings.queue, "other")], resend_seconds=60)
    await expire_leases(database)
    terms = make_terms(settings, halt=True, max_crashes=1)
    async with Database(
        settings.database, "patient", size=1, statement_timeout_seconds=600, lock_timeout_seconds=600
    ) as patient:
        with rows_locked(settings, "session_id = 's'", table="sessions"):
            async with asyncio.timeout(HANGS):
                left, taken = await claim(patient, terms, [make_claim("s"), make_claim("other")])

        assert (left, isinstance(taken, ClaimedTurn)) == (NoClaim.HEAD_LOCKED, True)
        [ended] = await claim(patient, terms, [make_claim("s")])
    assert isinstance(ended, EndedAtClaim)
    [row] = await database.fetch("SELECT halted_by FROM sessions WHERE session_id = 's'", {})
    assert row["halted_by"] == lost.id


async def test_of_six_retries_and_skips_of_one_turn_at_once_one_is_carried_out(
    database: Database, settings: Settings
) -> None:
    turn = await claimed(database, settings)
    await settle_one(database, settings, turn, FAILURE, halt=True)

    answers = await asyncio.gather(
        *(
            retry(database, turn.id, start_trace(number), expires_in_seconds=60, requested_by="who")
            if number % 2
            else skip(database, turn.id, requested_by="who")
            for number in range(1, 7)
        )
    )

    assert len([answer for answer in answers if answer is not None]) == 1
    [record] = await database.fetch("SELECT count(*) AS many FROM redrives", {})
    assert record["many"] == 1
