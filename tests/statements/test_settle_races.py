"""Settles at the same moment, in batches and after a takeover, on the real Postgres. What one settle writes: test_settle.py."""

import asyncio
import json
from collections.abc import Sequence
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import FAILURE, RELEASE, RETRY, SUCCESS
from tests.support.claiming import (
    claim_one,
    claim_sessions,
    claimed,
    expire_leases,
    outcomes,
    replies,
    row_of,
    settle_one,
    submit_turns,
)
from tests.support.factories import make_terms
from tests.support.probes import until
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import NoClaim
from turnstile.statements.settle import RowLocked, Settled, SettleRequest, Superseded, settle
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


# --- what a settle writes


@pytest.mark.parametrize("reply", [None, "", {"deep": [1, {"a": None}]}], ids=repr)
async def test_any_json_is_a_reply(database: Database, settings: Settings, reply: object) -> None:
    await submit_turns(database, settings, "one")
    success = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)

    await settle_one(database, settings, await claimed(database, settings), success)

    assert await replies(database) == [reply]


async def test_every_release_is_on_record_and_none_is_charged(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    for _ in range(3):
        turn = await claimed(database, settings)
        assert turn.attempt == 1
        await settle_one(database, settings, turn, RELEASE)

    assert (await row_of(database, turn))["attempt"] == 0
    assert await outcomes(database) == [(1, "released")] * 3


# --- a cancel wins


async def test_the_turn_behind_a_cancelled_one_is_claimed_with_its_settle(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    turn = await claimed(database, settings)
    await cancel(database, "t", turn.id, CancelReason.USER)

    settled = await settle_one(database, settings, turn, RETRY, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.seq == 2


# --- only the newest claim


async def test_a_zombie_is_refused_also_after_its_successor_has_settled(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    zombie = await claimed(database, settings)
    await expire_leases(database)
    successor = await until(lambda: _claim_again(database, settings))
    await settle_one(database, settings, successor, SUCCESS)

    refused = await settle_one(database, settings, zombie, FAILURE)

    assert isinstance(refused, Superseded)
    assert (await row_of(database, zombie))["status"] == "SUCCEEDED"


async def _claim_again(database: Database, settings: Settings) -> ClaimedTurn | None:
    found = await claim_one(database, settings, "worker-b")
    return found if isinstance(found, ClaimedTurn) else None


async def test_of_many_settles_of_one_claim_at_once_one_is_committed(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)

    answers = await asyncio.gather(*(settle_one(database, settings, turn, SUCCESS) for _ in range(10)))

    assert all(isinstance(answer, Settled) for answer in answers)
    assert len(await replies(database)) == 1
    assert await outcomes(database) == [(1, "succeeded")]


# --- many at once


async def test_each_settle_of_a_batch_claims_its_sessions_next_turn(database: Database, settings: Settings) -> None:
    for session in ("a", "b"):
        await submit_turns(database, settings, f"{session} one", f"{session} two", session_id=session)
    turns = await claim_sessions(database, settings, "b", "a")
    requests = [SettleRequest(turn=turn, settlement=SUCCESS, more=True, next_claim_id=uuid4()) for turn in turns]

    settled = await settle(database, make_terms(settings), requests, json.dumps)

    following = [one.next.inputs for one in settled if isinstance(one, Settled) and isinstance(one.next, ClaimedTurn)]
    assert following == [("b two",), ("a two",)]


async def test_a_batch_is_answered_in_the_order_of_its_requests(database: Database, settings: Settings) -> None:
    sessions = [f"s-{number}" for number in range(6)]
    for session in sessions:
        await submit_turns(database, settings, session, session_id=session)
    turns = await claim_sessions(database, settings, *reversed(sessions))
    wanted = [SUCCESS, FAILURE, RETRY] * 2
    requests = [
        SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        for turn, settlement in zip(turns, wanted, strict=True)
    ]

    settled = await settle(database, make_terms(settings), requests, json.dumps)

    assert [one.status for one in settled if isinstance(one, Settled)] == [settlement.status for settlement in wanted]


async def test_a_reply_that_postgres_refuses_fails_alone(database: Database, settings: Settings) -> None:
    sessions = ["a", "b", "c"]
    for session in sessions:
        await submit_turns(database, settings, session, session_id=session)
    turns = await claim_sessions(database, settings, *sessions)

    async def flush(requests: Sequence[SettleRequest]) -> list[Settled | Superseded | RowLocked]:
        return await settle(database, make_terms(settings), requests, json.dumps)

    call: Batcher[SettleRequest, Settled | Superseded | RowLocked] = Batcher(flush, limit=10)
    good, bad = SUCCESS, Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=float("nan"))

    answers = await asyncio.gather(
        *(
            call(SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4()))
            for turn, settlement in zip(turns, [good, bad, good], strict=True)
        ),
        return_exceptions=True,
    )

    assert isinstance(answers[1], psycopg.DataError)
    rows = await database.fetch("SELECT status FROM turns ORDER BY session_id", {})
    assert [row["status"] for row in rows] == ["SUCCEEDED", "RUNNING", "SUCCEEDED"]


# --- what comes next


async def test_a_next_turn_that_waits_for_its_retry_is_not_claimed(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    turn = await claimed(database, settings)
    await database.fetch("UPDATE turns SET execute_at = now() + interval '1 hour' WHERE seq = 2", {})

    settled = await settle_one(database, settings, turn, SUCCESS, more=True)

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)


async def test_a_next_turn_that_somebody_holds_is_to_be_looked_at_again(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    turn = await claimed(database, settings)
    async with database.connection() as other, other.transaction():
        await other.execute("SELECT 1 FROM turns WHERE seq = 2 FOR NO KEY UPDATE")

        settled = await settle_one(database, settings, turn, SUCCESS, more=True)

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.LOOK_AGAIN)


async def test_a_failed_turn_is_passed_over(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    settled = await settle_one(database, settings, await claimed(database, settings), FAILURE, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.seq == 2


async def test_a_turn_that_goes_back_is_not_its_own_successor(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    settled = await settle_one(database, settings, await claimed(database, settings), RELEASE, more=True)

    assert settled == Settled(TurnStatus.PENDING, NoClaim.IDLE)
