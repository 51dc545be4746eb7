"""Settle: each claim ends once, by the newest claim, together with everything that it then owes."""

from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    JOIN,
    QUIET_FAILURE,
    RELEASE,
    RETRY,
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
from tests.statements.store import Store
from turnstile.ops.turns.attempts import read_attempts
from turnstile.queries.session_messages import read_history, read_history_as_text
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import NoClaim
from turnstile.statements.settle import Settled, SettleRequest, Superseded, settle
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import StoredMessage
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus


async def started(store: Store) -> ClaimedTurn:
    """A turn that is claimed a second after its submit."""
    await submit_one(store)
    await store.pass_time(1)
    return await claimed(store)


def success(reply: object) -> Settlement:
    return replace(SUCCESS, reply=reply)


def by_outcome(settlement: Settlement) -> str:
    return settlement.outcome


# --- what a settle writes


async def test_a_success_stores_the_reply_and_the_attempt_and_owes_nothing(store: Store) -> None:
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
    (stored,) = (await store.snapshot())["turn_attempts"]
    assert (stored["fence"], stored["generation"]) == (row["fence"], 1)


async def test_an_attempt_keeps_the_release_of_the_handler_that_ended_it(store: Store) -> None:
    turn = await started(store)
    request = SettleRequest(turn=turn, settlement=FAILURE, more=False, next_claim_id=uuid4())

    await settle(store.database, terms(release="r7"), [request])

    (attempt,) = await read_attempts(store.database, turn.tenant_id, turn.id)
    assert attempt.release == "r7"


@pytest.mark.parametrize("reply", [None, ""], ids=repr)
async def test_a_reply_may_be_empty(store: Store, reply: object) -> None:
    turn = await started(store)

    await settle_one(store, turn, success(reply))

    assert await said(store, turn.id) == [("user", "hello"), ("assistant", reply)]


# Status, attempt, failures and error; seconds from the submit (the claim came after one) until the turn is sent, due, finished.
@pytest.mark.parametrize(
    ("settlement", "columns", "sent", "due", "finished"),
    [
        pytest.param(FAILURE, ("FAILED", 1, 1, "Boom", "boom"), 1, None, 1, id="failure with a dead letter"),
        pytest.param(QUIET_FAILURE, ("FAILED", 1, 0, "expired", "too late"), None, None, 1, id="failure without one"),
        pytest.param(RETRY, ("PENDING", 1, 1, "Boom", "boom"), 11, 11, None, id="retry"),
        pytest.param(SNOOZE, ("PENDING", 0, 0, None, None), 8.5, 8.5, None, id="snooze"),
        pytest.param(RELEASE, ("PENDING", 0, 0, None, None), 1, None, None, id="release"),
    ],
)
async def test_a_turn_without_a_reply_owes_what_its_settlement_says(
    store: Store, settlement: Settlement, columns: tuple[object, ...], sent: float, due: float, finished: float
) -> None:
    turn = await started(store)

    await settle_one(store, turn, settlement)

    row = await row_of(store, turn.id)
    assert tuple(row[name] for name in ("status", "attempt", "failures", "error_class", "error")) == columns
    times = [await seconds_from_creation(store, turn.id, name) for name in ("send_at", "execute_at", "finished_at")]
    assert times == [sent, due, finished]
    assert await outcomes(store, turn.id) == [(1, settlement.outcome)]


async def test_a_released_turn_is_claimed_again_with_the_same_attempt(store: Store) -> None:
    turn = await started(store)
    await settle_one(store, turn, RELEASE)

    again = await claimed(store)

    assert (again.attempt, again.fence > turn.fence) == (1, True)
    await settle_one(store, again, RELEASE)
    assert await outcomes(store, turn.id) == [(1, "released"), (1, "released")]


@pytest.mark.parametrize("settlement", [SUCCESS, JOIN], ids=by_outcome)
async def test_an_acknowledged_cancel_wins_over_every_outcome(store: Store, settlement: Settlement) -> None:
    turn = await started(store)
    await cancel(store.database, "t", turn.id, CancelReason.USER)

    settled = await settle_one(store, turn, settlement)

    row = await row_of(store, turn.id)
    assert settled == Settled(TurnStatus.CANCELED, NoClaim.IDLE)
    assert (row["status"], row["attempt"], row["send_at"], row["execute_at"]) == ("CANCELED", 1, None, None)
    assert row["cancel_reason"] == "user"
    assert await outcomes(store, turn.id) == [(1, "canceled")]
    assert await said(store, turn.id) == [("user", "hello")]


async def test_a_reply_that_postgres_refuses_fails_the_whole_batch(store: Store) -> None:
    turn = await started(store)
    before = await store.snapshot()

    with pytest.raises(psycopg.DataError):
        await settle_one(store, turn, success(float("nan")))

    assert await store.snapshot() == before


# --- once, and only by the newest claim


@pytest.mark.parametrize("settlement", [SUCCESS, FAILURE, RETRY], ids=by_outcome)
async def test_a_second_settle_changes_nothing_and_returns_the_first_result(
    store: Store, settlement: Settlement
) -> None:
    turn = await started(store)
    first = await settle_one(store, turn, settlement)
    before = await store.snapshot()

    again = await settle_one(store, turn, settlement)

    assert again == first == Settled(settlement.status, NoClaim.IDLE)
    assert await store.snapshot() == before


async def test_a_stale_fence_changes_nothing(store: Store) -> None:
    stale = await started(store)
    await submit_one(store)
    await pass_lease(store)
    await claimed(store, "worker-b")
    before = await store.snapshot()

    assert await settle_one(store, stale, SUCCESS, more=True) == Superseded()
    assert await store.snapshot() == before


async def test_a_claim_with_an_expired_lease_can_be_settled_until_it_is_taken_over(store: Store) -> None:
    turn = await started(store)
    await pass_lease(store)

    assert await settle_one(store, turn, SUCCESS) == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)


async def test_a_batch_may_have_a_stale_and_the_present_claim_of_one_turn(store: Store) -> None:
    stale = await started(store)
    await pass_lease(store)
    present = await claimed(store, "worker-b")
    requests = [
        SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        for turn, settlement in ((stale, FAILURE), (present, SUCCESS))
    ]

    stale_first = await settle(store.database, terms(), requests)
    stale_last = await settle(store.database, terms(), requests[::-1])

    succeeded = Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    assert (stale_first, stale_last) == ([Superseded(), succeeded], [succeeded, Superseded()])
    assert await said(store, stale.id) == [("user", "hello"), ("assistant", {"say": "hi"})]


# --- the session's next turn


async def test_the_next_turn_is_claimed_in_the_same_round_trip(store: Store) -> None:
    turn = await started(store)
    second = await submit_one(store, "two")

    settled = await settle_one(store, turn, SUCCESS, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert (settled.next.id, settled.next.attempt, settled.next.inputs) == (second.turn_id, 1, ("two",))
    assert settled.next.fence > turn.fence
    assert (await row_of(store, second.turn_id))["send_at"] is None


@pytest.mark.parametrize("canceled", [False, True], ids=["failed", "canceled"])
async def test_the_turn_behind_a_failed_or_canceled_one_is_claimed(store: Store, canceled: bool) -> None:
    turn = await started(store)
    await submit_one(store)
    if canceled:
        await cancel(store.database, "t", turn.id, CancelReason.USER)

    settled = await settle_one(store, turn, RETRY if canceled else FAILURE, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.seq == 2


async def test_a_next_claim_whose_response_was_lost_is_found_by_its_id(store: Store) -> None:
    turn = await started(store)
    await submit_one(store)
    next_claim_id = uuid4()
    first = await settle_one(store, turn, SUCCESS, more=True, next_claim_id=next_claim_id)

    assert await settle_one(store, turn, SUCCESS, more=True, next_claim_id=next_claim_id) == first


@pytest.mark.parametrize(("more", "queue"), [(False, "turns"), (True, "other")], ids=["no more", "another queue"])
async def test_a_next_turn_that_is_not_claimed_is_made_due(store: Store, more: bool, queue: str) -> None:
    turn = await started(store)
    second = await submit_one(store, queue=queue)
    await store.pass_time(3)

    assert await settle_one(store, turn, SUCCESS, more=more) == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
    row = await row_of(store, second.turn_id)
    assert (row["status"], row["send_at"]) == ("PENDING", (await row_of(store, turn.id))["finished_at"])


async def test_a_retry_keeps_its_place_before_the_next_turn(store: Store) -> None:
    turn = await started(store)
    await submit_one(store)

    settled = await settle_one(store, turn, RETRY, more=True)

    assert settled == Settled(TurnStatus.PENDING, NoClaim.IDLE)


# --- the history


async def test_a_settle_returns_the_reply_as_the_history_has_it(store: Store) -> None:
    turn = await started(store)

    settled = await settle_one(store, turn, SUCCESS)

    assert isinstance(settled, Settled)
    last = (await read_history(store.database, "t", "s", limit=1))[0]
    assert settled.reply == StoredMessage(
        turn_id=turn.id, seq=turn.seq, ordinal=1, role="assistant", text='{"say":"hi"}', created_at=last.created_at
    )
    stored = await read_history_as_text(store.database, "t", "s", limit=2, before_seq=9, max_bytes=10)
    assert (stored[0], stored[1].text) == (replace(settled.reply, text=None), '"hello"')


async def test_a_turn_that_was_not_answered_has_no_reply(store: Store) -> None:
    settled = await settle_one(store, await started(store), FAILURE)

    assert isinstance(settled, Settled)
    assert settled.reply is None


async def test_the_history_has_the_messages_of_answered_turns(store: Store) -> None:
    await settle_one(store, await started(store), SUCCESS)
    for content, settlement in (("cancelled", replace(CANCELED, partial="half a s")), ("three", SUCCESS)):
        await submit_one(store, content)
        await settle_one(store, await claimed(store), settlement)
    await submit_one(store, "waiting")

    history = await read_history(store.database, "t", "s", limit=3)

    assert [(one.seq, one.role, one.content) for one in history] == [
        (1, "assistant", {"say": "hi"}),
        (3, "user", "three"),
        (3, "assistant", {"say": "hi"}),
    ]
    assert [one.seq for one in await read_history(store.database, "t", "s", limit=9, before_seq=3)] == [1, 1]
    assert await read_history(store.database, "t", "s", limit=9, before_seq=1) == []
    for tenant, session in (("t", "another"), ("another", "s")):
        assert await read_history(store.database, tenant, session, limit=9) == []


async def test_a_settle_that_claims_apart_leaves_the_next_turn_and_says_that_it_is_due(store: Store) -> None:
    await submit_one(store, "one")
    following = await submit_one(store, "two")
    turn = await claimed(store)

    request = SettleRequest(turn=turn, settlement=SUCCESS, more=False, next_claim_id=uuid4(), apart=True)
    [settled] = await settle(store.database, terms(), [request])

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.HEAD_LOCKED)
    assert (await row_of(store, following.turn_id))["status"] == "PENDING"


async def test_a_settle_that_claims_apart_says_when_nothing_is_due(store: Store) -> None:
    await submit_one(store)
    turn = await claimed(store)

    request = SettleRequest(turn=turn, settlement=SUCCESS, more=False, next_claim_id=uuid4(), apart=True)
    [settled] = await settle(store.database, terms(), [request])

    assert settled == Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)
