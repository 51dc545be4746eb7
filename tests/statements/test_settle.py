"""Settle, on both stores: one end for each claim, by the newest claim, with everything it owes."""

import json
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    QUIET_FAILURE,
    RELEASE,
    RETRY,
    SETTLEMENTS,
    SNOOZE,
    SUCCESS,
    claimed,
    outcomes,
    pass_lease,
    row_of,
    said,
    seconds_from_creation,
    settle_one,
    submit_one,
    terms,
)
from tests.support.fakes.store_stands import Stand
from turnstile.queries.attempts import read_attempts
from turnstile.queries.history import read_contents, read_history, read_history_as_text, session_exists
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import NoClaim
from turnstile.statements.settle import REREAD_SETTLED, Settled, SettleRequest, Superseded, settle
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import StoredMessage
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus


async def started(store: Stand) -> ClaimedTurn:
    """A turn that is claimed a second after it was submitted."""
    await submit_one(store)
    await store.pass_time(1)
    return await claimed(store)


async def test_a_success_writes_the_reply_and_the_attempt_and_owes_nothing(store: Stand) -> None:
    turn = await started(store)
    await store.pass_time(2)

    settled = await settle_one(store, turn, SUCCESS)

    row = await row_of(store, turn.id)
    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    assert (row["status"], row["send_at"], row["lease_until"]) == ("SUCCEEDED", None, None)
    assert await seconds_from_creation(store, turn.id, "finished_at") == 3
    assert await said(store, turn.id) == [("user", "hello"), ("assistant", {"say": "hi"})]
    (attempt,) = await read_attempts(store.database, turn.tenant_id, turn.id)
    assert (attempt.attempt, attempt.outcome, attempt.worker_id) == (1, "succeeded", "worker-a")
    assert attempt.started_at is not None
    assert (attempt.finished_at - attempt.started_at).total_seconds() == 2
    (kept,) = (await store.snapshot())["turn_attempts"]
    assert (kept["fence"], kept["generation"]) == ((await row_of(store, turn.id))["fence"], 1)


async def test_a_failure_owes_a_dead_letter_at_once(store: Stand) -> None:
    turn = await started(store)

    await settle_one(store, turn, FAILURE)

    row = await row_of(store, turn.id)
    assert (row["status"], row["failures"], row["error_class"], row["error"]) == ("FAILED", 1, "Boom", "boom")
    assert row["send_at"] == row["finished_at"]


@pytest.mark.parametrize(("failure", "failures"), [(QUIET_FAILURE, 0), (replace(FAILURE, dead_letter=False), 1)])
async def test_a_failure_that_is_not_worth_one_owes_none(store: Stand, failure: Settlement, failures: int) -> None:
    turn = await started(store)

    await settle_one(store, turn, failure)

    row = await row_of(store, turn.id)
    assert (row["status"], row["failures"], row["send_at"]) == ("FAILED", failures, None)


async def test_a_retry_waits_and_is_charged(store: Stand) -> None:
    turn = await started(store)

    await settle_one(store, turn, RETRY)

    row = await row_of(store, turn.id)
    assert (row["status"], row["attempt"], row["failures"], row["finished_at"]) == ("PENDING", 1, 1, None)
    assert (row["error_class"], row["error"]) == ("Boom", "boom")
    assert row["send_at"] == row["execute_at"]
    assert await seconds_from_creation(store, turn.id, "send_at") == 1 + RETRY.after_seconds
    assert await outcomes(store, turn.id) == [(1, "retried")]


async def test_a_snooze_waits_and_is_refunded(store: Stand) -> None:
    turn = await started(store)

    await settle_one(store, turn, SNOOZE)

    row = await row_of(store, turn.id)
    assert (row["status"], row["attempt"], row["failures"]) == ("PENDING", 0, 0)
    assert await seconds_from_creation(store, turn.id, "execute_at") == 1 + SNOOZE.after_seconds
    assert await outcomes(store, turn.id) == [(1, "snoozed")]


async def test_a_release_is_due_at_once_and_refunded(store: Stand) -> None:
    turn = await started(store)

    await settle_one(store, turn, RELEASE)

    row = await row_of(store, turn.id)
    assert (row["attempt"], row["execute_at"]) == (0, None)
    assert await seconds_from_creation(store, turn.id, "send_at") == 1
    again = await claimed(store)
    assert (again.attempt, again.fence > turn.fence) == (1, True)


@pytest.mark.parametrize("settlement", SETTLEMENTS.values(), ids=SETTLEMENTS.keys())
async def test_an_acknowledged_cancel_wins_over_whatever_came_of_it(store: Stand, settlement: Settlement) -> None:
    turn = await started(store)
    await cancel(store.database, "t", turn.id, CancelReason.USER)

    settled = await settle_one(store, turn, settlement)

    row = await row_of(store, turn.id)
    assert settled == Settled(TurnStatus.CANCELED, NoClaim.IDLE)
    assert (row["status"], row["attempt"], row["send_at"], row["execute_at"]) == ("CANCELED", 1, None, None)
    assert row["cancel_reason"] == "user"
    assert await outcomes(store, turn.id) == [(1, "canceled")]
    assert await said(store, turn.id) == [("user", "hello")]


@pytest.mark.parametrize("settlement", SETTLEMENTS.values(), ids=SETTLEMENTS.keys())
async def test_it_is_committed_once_however_often_it_is_asked(store: Stand, settlement: Settlement) -> None:
    turn = await started(store)
    first = await settle_one(store, turn, settlement)
    before = await store.snapshot()

    again = await settle_one(store, turn, settlement)

    assert again == first == Settled(settlement.status, NoClaim.IDLE)
    assert await store.snapshot() == before


@pytest.mark.parametrize("settlement", [SUCCESS, FAILURE, RETRY, RELEASE], ids=lambda one: one.outcome)
async def test_a_stale_fence_changes_nothing(store: Stand, settlement: Settlement) -> None:
    zombie = await started(store)
    await submit_one(store)
    await pass_lease(store)
    await claimed(store, "worker-b")
    before = await store.snapshot()

    assert await settle_one(store, zombie, settlement, more=True) == Superseded()
    assert await store.snapshot() == before


async def test_what_changed_no_row_is_told_as_ours_as_ended_or_as_neither(store: Stand) -> None:
    zombie = await started(store)
    await pass_lease(store)
    turn = await claimed(store, "worker-b")

    async def reread() -> list[tuple[bool, str | None]]:
        columns = {name: [getattr(one, name[:-1]) for one in (zombie, turn)] for name in ("ids", "fences", "attempts")}
        return [(row["ours"], row["outcome"]) for row in await store.database.fetch(REREAD_SETTLED, columns)]

    before = await reread()
    await settle_one(store, turn, SUCCESS)

    assert (before, await reread()) == ([(False, "lost"), (True, None)], [(False, "lost"), (False, "succeeded")])


async def test_a_lease_that_is_over_but_was_not_taken_can_still_be_settled(store: Stand) -> None:
    turn = await started(store)
    await pass_lease(store)

    assert await settle_one(store, turn, SUCCESS) == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)


async def test_a_stale_and_the_present_claim_of_one_turn_in_a_batch_are_told_apart(store: Stand) -> None:
    zombie = await started(store)
    await pass_lease(store)
    successor = await claimed(store, "worker-b")

    requests = [
        SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        for turn, settlement in ((zombie, FAILURE), (successor, SUCCESS))
    ]
    answers = await settle(store.database, terms(), requests, json.dumps)

    assert answers == [Superseded(), Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)]
    assert (await row_of(store, zombie.id))["status"] == "SUCCEEDED"


async def test_the_next_turn_is_claimed_in_the_same_round_trip(store: Stand) -> None:
    turn = await started(store)
    second = await submit_one(store, "two")

    settled = await settle_one(store, turn, SUCCESS, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert (settled.next.id, settled.next.attempt, settled.next.inputs) == (second.turn_id, 1, ("two",))
    assert settled.next.fence > turn.fence
    assert (await row_of(store, second.turn_id))["send_at"] is None


async def test_a_next_claim_whose_answer_was_lost_is_found_by_its_id(store: Stand) -> None:
    turn = await started(store)
    await submit_one(store)
    next_claim_id = uuid4()
    first = await settle_one(store, turn, SUCCESS, more=True, next_claim_id=next_claim_id)

    assert await settle_one(store, turn, SUCCESS, more=True, next_claim_id=next_claim_id) == first


async def test_without_more_the_next_turn_is_made_due(store: Stand) -> None:
    turn = await started(store)
    second = await submit_one(store)
    await store.pass_time(3)

    assert await settle_one(store, turn, SUCCESS, more=False) == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    row = await row_of(store, second.turn_id)
    assert (row["status"], row["send_at"]) == ("PENDING", (await row_of(store, turn.id))["finished_at"])


async def test_a_next_turn_of_another_queue_is_made_due_there(store: Stand) -> None:
    turn = await started(store)
    second = await submit_one(store, queue="other")
    await store.pass_time(3)

    assert await settle_one(store, turn, SUCCESS, more=True) == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    row = await row_of(store, second.turn_id)
    assert (row["status"], row["send_at"]) == ("PENDING", (await row_of(store, turn.id))["finished_at"])


async def test_a_retry_keeps_its_place_before_the_next_turn(store: Stand) -> None:
    turn = await started(store)
    await submit_one(store)

    settled = await settle_one(store, turn, RETRY, more=True)

    assert settled == Settled(TurnStatus.PENDING, NoClaim.IDLE)


async def test_one_reply_that_cannot_be_stored_refuses_the_whole_batch(store: Stand) -> None:
    turn = await started(store)
    before = await store.snapshot()

    with pytest.raises(psycopg.DataError):
        await settle_one(
            store, turn, Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply=float("nan"))
        )

    assert await store.snapshot() == before


async def test_a_settle_tells_what_the_history_has_of_it_now(store: Stand) -> None:
    turn = await started(store)

    settled = await settle_one(store, turn, SUCCESS)

    assert isinstance(settled, Settled)
    last = (await read_history(store.database, "t", "s", limit=1))[0]
    assert settled.reply == StoredMessage(
        turn_id=turn.id, seq=turn.seq, ordinal=1, role="assistant", text='{"say": "hi"}', created_at=last.created_at
    )
    stored = await read_history_as_text(store.database, "t", "s", limit=2, before_seq=9, max_bytes=10)
    assert (stored[0], stored[1].text) == (replace(settled.reply, text=None), '"hello"')
    contents = await read_contents(store.database, [(turn.id, 1), (turn.id, 9)])
    assert contents == {(turn.id, 1): {"say": "hi"}}


@pytest.mark.parametrize("settlement", [FAILURE, CANCELED, RETRY], ids=["failure", "canceled", "retry"])
async def test_the_history_has_nothing_of_a_turn_that_was_not_answered(store: Stand, settlement: Settlement) -> None:
    settled = await settle_one(store, await started(store), settlement)

    assert isinstance(settled, Settled)
    assert settled.reply is None


async def test_the_history_is_what_was_answered(store: Stand) -> None:
    await settle_one(store, await started(store), SUCCESS)
    await submit_one(store, "cancelled")
    await settle_one(store, await claimed(store), CANCELED)
    await submit_one(store, "three")
    await settle_one(store, await claimed(store), SUCCESS)
    await submit_one(store, "waiting")

    history = await read_history(store.database, "t", "s", limit=3)

    assert [(one.seq, one.role, one.content) for one in history] == [
        (1, "assistant", {"say": "hi"}),
        (3, "user", "three"),
        (3, "assistant", {"say": "hi"}),
    ]
    assert [one.seq for one in await read_history(store.database, "t", "s", limit=9, before_seq=3)] == [1, 1]
    assert await session_exists(store.database, "t", "s")
    assert not await session_exists(store.database, "other", "s")
