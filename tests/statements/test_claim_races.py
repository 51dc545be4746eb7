"""Claims and settles at the same moment, and while other rows are locked."""

import asyncio
from uuid import uuid4

from tests.statements.calls import FAILURE, RETRY, SUCCESS
from tests.support.claims import (
    claim_one,
    claim_sessions,
    claimed,
    outcomes,
    replies,
    settle_one,
    submit_turns,
)
from tests.support.factories import make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import NoClaim
from turnstile.statements.renew_lease import renew
from turnstile.statements.settle import Settled, SettleRequest, settle
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus


async def test_of_twenty_claims_at_once_one_gets_the_turn(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    claims = await asyncio.gather(*(claim_one(database, settings, f"worker-{n}") for n in range(20)))

    assert sum(isinstance(one, ClaimedTurn) for one in claims) == 1


async def test_of_ten_settles_of_one_claim_at_once_one_is_committed(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)

    answers = await asyncio.gather(*(settle_one(database, settings, turn, SUCCESS) for _ in range(10)))

    assert all(isinstance(answer, Settled) for answer in answers)
    assert len(await replies(database)) == 1
    assert await outcomes(database) == [(1, "succeeded")]


async def test_a_batch_of_settles_returns_results_and_next_turns_in_the_order_of_its_requests(
    database: Database, settings: Settings
) -> None:
    sessions = [f"s-{number}" for number in range(6)]
    for session in sessions:
        await submit_turns(database, settings, f"{session} one", f"{session} two", session_id=session)
    turns = await claim_sessions(database, settings, *reversed(sessions))
    requests = [
        SettleRequest(turn=turn, settlement=settlement, more=True, next_claim_id=uuid4())
        for turn, settlement in zip(turns, [SUCCESS, FAILURE, RETRY] * 2, strict=True)
    ]

    settled = await settle(database, make_terms(settings), requests)

    found = [
        (one.status, one.next.inputs if isinstance(one.next, ClaimedTurn) else one.next)
        for one in settled
        if isinstance(one, Settled)
    ]
    assert found == [
        (TurnStatus.SUCCEEDED, ("s-5 two",)), (TurnStatus.FAILED, ("s-4 two",)), (TurnStatus.PENDING, NoClaim.IDLE),
        (TurnStatus.SUCCEEDED, ("s-2 two",)), (TurnStatus.FAILED, ("s-1 two",)), (TurnStatus.PENDING, NoClaim.IDLE),
    ]  # fmt: skip


async def test_a_next_turn_that_is_not_due_is_not_claimed(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    turn = await claimed(database, settings)
    await database.fetch("UPDATE turns SET execute_at = now() + interval '1 hour' WHERE seq = 2", {})

    settled = await settle_one(database, settings, turn, SUCCESS, more=True)

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)


async def test_a_next_turn_whose_row_is_locked_is_reported_as_look_again(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    turn = await claimed(database, settings)
    async with database.connection() as other, other.transaction():
        await other.execute("SELECT 1 FROM turns WHERE seq = 2 FOR NO KEY UPDATE")

        settled = await settle_one(database, settings, turn, SUCCESS, more=True)

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.HEAD_LOCKED)


async def test_a_lease_whose_row_is_locked_is_still_ours_but_not_renewed(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)
    async with database.connection() as other, other.transaction():
        await other.execute("SELECT 1 FROM turns FOR NO KEY UPDATE")

        (renewal,) = (await renew(database, [(turn.id, turn.fence)], 600.0)).rows

    assert (renewal.ours, renewal.renewed) == (True, False)
