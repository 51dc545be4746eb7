"""Settle: what ends a claim, what it owes, and who may do it."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from tests.statements.test_claim_races import claim_one, expire_leases, settle_one, submit_turns
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.probes import until
from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import NoClaim, claim
from turnstile.statements.settle import Held, Settled, SettleRequest, Superseded, settle
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

SUCCESS = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply={"say": "hi"})
FAILURE = Settlement(
    status=TurnStatus.FAILED,
    outcome=AttemptOutcome.FAILED,
    fault=True,
    error_class="Boom",
    error="boom",
    dead_letter=True,
)
RETRY = Settlement(
    status=TurnStatus.PENDING,
    outcome=AttemptOutcome.RETRIED,
    after_seconds=60,
    fault=True,
    error_class="Boom",
    error="x",
)
SNOOZE = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.SNOOZED, after_seconds=60, refund=True)
RELEASE = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RELEASED, refund=True)


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


async def claimed(database: Database, settings: Settings) -> ClaimedTurn:
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    return turn


async def claim_sessions(database: Database, settings: Settings, *sessions: str) -> list[ClaimedTurn]:
    found = await claim(database, make_terms(settings), [make_claim(session) for session in sessions])
    assert all(isinstance(turn, ClaimedTurn) for turn in found)
    return [turn for turn in found if isinstance(turn, ClaimedTurn)]


async def row_of(database: Database, turn: ClaimedTurn) -> dict[str, Any]:
    rows = await database.fetch(
        "SELECT *, extract(epoch FROM send_at - clock_timestamp())::float8 AS send_in,"
        " extract(epoch FROM execute_at - clock_timestamp())::float8 AS execute_in FROM turns WHERE id = %(id)s",
        {"id": turn.id},
    )
    return rows[0]


async def replies(database: Database) -> list[Any]:
    return [row["content"] for row in await database.fetch("SELECT content FROM messages WHERE role = 'assistant'", {})]


async def outcomes(database: Database) -> list[tuple[int, str]]:
    rows = await database.fetch("SELECT attempt, outcome FROM turn_attempts ORDER BY fence", {})
    return [(row["attempt"], row["outcome"]) for row in rows]


# --- what a settle writes


async def test_a_success_writes_the_reply_and_the_attempt_and_owes_nothing(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)

    settled = await settle_one(database, settings, turn, SUCCESS)

    row = await row_of(database, turn)
    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    assert (row["status"], row["send_at"], row["lease_until"]) == ("SUCCEEDED", None, None)
    assert row["finished_at"] is not None
    assert await replies(database) == [{"say": "hi"}]
    attempts = await database.fetch("SELECT * FROM turn_attempts", {})
    assert len(attempts) == 1
    assert attempts[0]["started_at"] < attempts[0]["finished_at"]
    assert (attempts[0]["turn_id"], attempts[0]["attempt"], attempts[0]["fence"]) == (turn.id, 1, turn.fence)
    assert (attempts[0]["outcome"], attempts[0]["worker_id"], attempts[0]["generation"]) == ("succeeded", "worker-a", 1)


@pytest.mark.parametrize("reply", [None, "", 0, [], {"deep": [1, {"a": None}]}], ids=repr)
async def test_any_json_is_a_reply(database: Database, settings: Settings, reply: object) -> None:
    await submit_turns(database, settings, "one")
    success = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=reply)

    await settle_one(database, settings, await claimed(database, settings), success)

    assert await replies(database) == [reply]


@pytest.mark.parametrize(("dead_letter", "owed"), [(True, True), (False, False)])
async def test_a_failure_owes_a_dead_letter_if_it_says_so(
    database: Database, settings: Settings, dead_letter: bool, owed: bool
) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)
    failure = Settlement(
        status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, fault=True, error_class="Boom", error="boom",
        dead_letter=dead_letter,
    )  # fmt: skip

    await settle_one(database, settings, turn, failure)

    row = await row_of(database, turn)
    assert (row["status"], row["failures"], row["error_class"], row["error"]) == ("FAILED", 1, "Boom", "boom")
    assert (row["send_at"] is not None) is owed
    assert row["dead_lettered_at"] is None
    assert await replies(database) == []


async def test_a_retry_waits_its_time_and_keeps_its_error(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)

    await settle_one(database, settings, turn, RETRY)

    row = await row_of(database, turn)
    assert (row["status"], row["attempt"], row["failures"], row["error_class"]) == ("PENDING", 1, 1, "Boom")
    assert 30 < row["send_in"] <= 60
    assert 30 < row["execute_in"] <= 60
    assert await outcomes(database) == [(1, "retried")]


async def test_a_snooze_waits_free_of_charge(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)

    await settle_one(database, settings, turn, SNOOZE)

    row = await row_of(database, turn)
    assert (row["status"], row["attempt"], row["failures"]) == ("PENDING", 0, 0)
    assert 30 < row["send_in"] <= 60
    assert await outcomes(database) == [(1, "snoozed")]


async def test_every_release_is_on_record_and_none_is_charged(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    for _ in range(3):
        turn = await claimed(database, settings)
        assert turn.attempt == 1
        await settle_one(database, settings, turn, RELEASE)

    assert (await row_of(database, turn))["attempt"] == 0
    assert await outcomes(database) == [(1, "released")] * 3


# --- a cancel wins


@pytest.mark.parametrize("settlement", [SUCCESS, FAILURE, RETRY, SNOOZE, RELEASE], ids=lambda one: one.outcome)
async def test_an_acknowledged_cancel_wins_over(database: Database, settings: Settings, settlement: Settlement) -> None:
    await submit_turns(database, settings, "one")
    turn = await claimed(database, settings)
    await cancel(database, "t", turn.id, CancelReason.USER)

    settled = await settle_one(database, settings, turn, settlement)

    row = await row_of(database, turn)
    assert settled == Settled(TurnStatus.CANCELED, NoClaim.IDLE)
    assert (row["status"], row["send_at"], row["cancel_reason"]) == ("CANCELED", None, "user")
    assert await replies(database) == []
    assert await outcomes(database) == [(1, "canceled")]


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


@pytest.mark.parametrize("settlement", [SUCCESS, FAILURE, RETRY, RELEASE], ids=lambda one: one.outcome)
async def test_a_zombie_changes_nothing(database: Database, settings: Settings, settlement: Settlement) -> None:
    await submit_turns(database, settings, "one", "two")
    zombie = await claimed(database, settings)
    await expire_leases(database)
    await until(lambda: _taken_over(database, settings, zombie))
    before = await database.fetch("SELECT * FROM turns ORDER BY seq", {})
    attempts = await outcomes(database)

    refused = await settle_one(database, settings, zombie, settlement, more=True)

    assert isinstance(refused, Superseded)
    assert await database.fetch("SELECT * FROM turns ORDER BY seq", {}) == before
    assert await outcomes(database) == attempts
    assert await replies(database) == []


async def _taken_over(database: Database, settings: Settings, zombie: ClaimedTurn) -> bool:
    return isinstance(await claim_one(database, settings, "worker-b"), ClaimedTurn)


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


async def test_a_batch_may_hold_a_stale_and_the_present_claim_of_one_turn(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    zombie = await claimed(database, settings)
    await expire_leases(database)
    successor = await until(lambda: _claim_again(database, settings))
    requests = [
        SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        for turn, settlement in ((zombie, FAILURE), (successor, SUCCESS))
    ]

    stale, present = await settle(database, make_terms(settings), requests, json.dumps)

    assert isinstance(stale, Superseded)
    assert isinstance(present, Settled)
    assert (await row_of(database, zombie))["status"] == "SUCCEEDED"


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

    async def flush(requests: Sequence[SettleRequest]) -> list[Settled | Superseded | Held]:
        return await settle(database, make_terms(settings), requests, json.dumps)

    call: Batcher[SettleRequest, Settled | Superseded | Held] = Batcher(flush, limit=10)
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


async def test_a_repeated_settle_finds_the_next_turn_that_it_had_claimed(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    request = SettleRequest(
        turn=await claimed(database, settings), settlement=SUCCESS, more=True, next_claim_id=uuid4()
    )

    first, again = [(await settle(database, make_terms(settings), [request], json.dumps))[0] for _ in range(2)]

    assert isinstance(first, Settled)
    assert isinstance(again, Settled)
    assert isinstance(first.next, ClaimedTurn)
    assert isinstance(again.next, ClaimedTurn)
    assert (again.next.id, again.next.fence, again.next.attempt) == (first.next.id, first.next.fence, 1)


async def test_a_next_turn_of_another_queue_is_woken_there(database: Database, settings: Settings) -> None:
    await submit(
        database, [make_submission(settings.queue), make_submission("another", content="two")], net_seconds=60.0
    )
    turn = await claimed(database, settings)

    settled = await settle_one(database, settings, turn, SUCCESS, more=True)

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    due = await database.fetch("SELECT queue, status FROM turns WHERE send_at <= clock_timestamp()", {})
    assert due == [{"queue": "another", "status": "PENDING"}]


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
