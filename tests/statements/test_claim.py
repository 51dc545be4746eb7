"""Claim, on both stores: the head and nothing else, under a new fence, charged before it is handled."""

from dataclasses import replace

import pytest

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    LEASE_SECONDS,
    MAX_CRASHES,
    QUEUE,
    RELEASE,
    RETRY,
    SNOOZE,
    claim_one,
    claimed,
    outcomes,
    pass_lease,
    row_of,
    seconds_from_creation,
    settle_one,
    submit_one,
    terms,
)
from tests.support.factories import make_claim
from tests.support.fakes.store_stands import Stand
from turnstile.queries.history import read_version
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import EndedAtClaim, LeftToRecovery, NoClaim, claim
from turnstile.statements.lost_turns import find_lost
from turnstile.statements.renew_lease import renew
from turnstile.statements.settle import Settled
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import NOTHING_SAID, HistoryVersion
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus

OVER = LEASE_SECONDS + 1


async def lose(store: Stand, times: int) -> ClaimedTurn:
    """Claims the head so often, and loses it each time; the last claim."""
    for _ in range(times):
        turn = await claimed(store)
        await pass_lease(store)
    return turn


async def test_the_head_is_claimed_and_charged(store: Stand) -> None:
    first = await submit_one(store, "one", expires_in_seconds=900, metadata={"a": 1}, timeout_seconds=5)
    await submit_one(store, "two")
    await store.pass_time(2)

    turn = await claimed(store)

    assert (turn.id, turn.seq, turn.attempt, turn.inputs) == (first.turn_id, 1, 1, ("one",))
    assert (turn.metadata, turn.timeout_seconds, turn.max_attempts) == ({"a": 1}, 5.0, None)
    assert (turn.dwell_seconds, turn.expires_in_seconds) == (2.0, 898.0)
    assert await seconds_from_creation(store, turn.id, "lease_until") == 2 + LEASE_SECONDS


async def test_a_claim_brings_its_messages_as_the_history_will_have_them(store: Stand) -> None:
    await submit_one(store, {"text": "one"})

    turn = await claimed(store)

    rows = (await store.snapshot())["messages"]
    kept = [(row["turn_id"], row["ordinal"], row["role"], row["content"], row["created_at"]) for row in rows]
    said = [(one.turn_id, one.ordinal, one.role, one.content, one.created_at) for one in turn.messages]
    assert (said, turn.inputs) == (kept, ({"text": "one"},))
    assert {one.seq for one in turn.messages} == {turn.seq}


async def test_a_claim_brings_the_version_of_the_history_before_it(store: Stand) -> None:
    for content in ("answered", "failed", "cancelled", "claimed"):
        await submit_one(store, content)
    first = await claimed(store)
    assert first.history_version == NOTHING_SAID == await read_version(store.database, "t", "s")
    await settle_one(store, first)
    answered = HistoryVersion(first.seq, first.claim_id)
    for settlement in (FAILURE, CANCELED):
        turn = await claimed(store)
        assert turn.history_version == answered
        await settle_one(store, turn, settlement)

    assert (await claimed(store)).history_version == answered == await read_version(store.database, "t", "s")
    assert await read_version(store.database, "t", "nowhere") is None


async def test_the_next_of_a_settle_brings_the_version_that_the_settle_made(store: Stand) -> None:
    await submit_one(store)
    await submit_one(store)
    first = await claimed(store)

    settled = await settle_one(store, first, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.history_version == HistoryVersion(first.seq, first.claim_id)


async def test_nothing_is_claimed_behind_a_running_head(store: Stand) -> None:
    await submit_one(store)
    await submit_one(store)
    await claimed(store)

    assert await claim_one(store, "worker-b") is NoClaim.RUNNING


async def test_nothing_is_claimed_behind_a_head_that_waits_for_its_retry(store: Stand) -> None:
    await submit_one(store)
    await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    assert await claim_one(store) is NoClaim.IDLE
    await store.pass_time(RETRY.after_seconds)
    assert (await claimed(store)).seq == 1


async def test_a_session_that_was_never_made_is_unknown(store: Stand) -> None:
    assert await claim_one(store) is NoClaim.UNKNOWN


async def test_a_session_without_an_open_turn_is_idle(store: Stand) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store))

    assert await claim_one(store) is NoClaim.IDLE


async def test_a_due_head_of_another_queue_is_foreign(store: Stand) -> None:
    await submit_one(store, queue="other")

    assert await claim_one(store) is NoClaim.FOREIGN
    assert isinstance(await claim_one(store, queue="other"), ClaimedTurn)
    assert await claim_one(store) is NoClaim.RUNNING


async def test_one_statement_claims_in_many_sessions(store: Stand) -> None:
    await submit_one(store, session_id="a")
    await submit_one(store, session_id="b")

    answers = await claim(store.database, terms(), [make_claim("b"), make_claim("nowhere"), make_claim("a")])

    assert [isinstance(answer, ClaimedTurn) and answer.session_id for answer in answers] == ["b", False, "a"]


async def test_of_two_requests_for_one_session_in_a_batch_one_is_served(store: Stand) -> None:
    await submit_one(store)

    answers = await claim(store.database, terms(), [make_claim(), make_claim()])

    assert sum(isinstance(answer, ClaimedTurn) for answer in answers) == 1
    assert NoClaim.LOOK_AGAIN in answers


async def test_a_claim_whose_answer_was_lost_is_found_by_its_id(store: Stand) -> None:
    await submit_one(store)
    request = make_claim()
    first = await claim(store.database, terms(), [request])

    again = await claim(store.database, terms(), [replace(request, again=True)])

    assert isinstance(first[0], ClaimedTurn)
    assert again == first
    assert (await row_of(store, first[0].id))["attempt"] == 1


async def test_a_claim_that_was_never_made_is_made_when_it_is_asked_again(store: Stand) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE)
    await submit_one(store)

    (found,) = await claim(store.database, terms(), [replace(make_claim(), again=True)])

    assert isinstance(found, ClaimedTurn)
    assert found.seq == 2


async def test_a_lease_holds_up_to_its_last_moment(store: Stand) -> None:
    await submit_one(store)
    await claimed(store)
    await store.pass_time(LEASE_SECONDS)

    assert await claim_one(store, "worker-b") is NoClaim.RUNNING


async def test_a_lease_that_is_over_is_taken_over_under_a_higher_fence(store: Stand) -> None:
    await submit_one(store)
    zombie = await claimed(store)
    await pass_lease(store)

    successor = await claimed(store, "worker-b")

    assert (successor.id, successor.attempt, successor.crashes) == (zombie.id, 2, 1)
    assert successor.fence > zombie.fence
    assert await outcomes(store, zombie.id) == [(1, "lost")]


async def test_a_lease_that_is_over_is_not_taken_over_before_it_is_marked_as_lost(store: Stand) -> None:
    await submit_one(store)
    await claimed(store)
    await store.pass_time(OVER)

    assert await claim_one(store, "worker-b") is NoClaim.IDLE


async def test_a_worker_that_renews_takes_the_mark_away(store: Stand) -> None:
    await submit_one(store)
    turn = await claimed(store)
    await pass_lease(store)
    await renew(store.database, [(turn.id, turn.fence)], LEASE_SECONDS)
    await store.pass_time(OVER)

    assert await claim_one(store, "worker-b") is NoClaim.IDLE


async def test_a_takeover_names_the_worker_that_was_lost(store: Stand) -> None:
    await submit_one(store)
    await claimed(store)
    await pass_lease(store)

    assert (await claimed(store, "worker-b")).lost_worker == "worker-a"


async def test_a_first_claim_names_no_lost_worker(store: Stand) -> None:
    await submit_one(store)

    assert (await claimed(store)).lost_worker is None


async def test_a_turn_with_more_crashes_than_asked_for_is_left(store: Stand) -> None:
    await submit_one(store)
    turn = await lose(store, 2)

    (answer,) = await claim(store.database, terms(), [replace(make_claim(), most_crashes=1)])

    assert answer == LeftToRecovery(crashes=2)
    row = await row_of(store, turn.id)
    assert (row["status"], row["fence"], row["crashes"]) == (
        "RUNNING",
        (await store.snapshot())["turns"][0]["fence"],
        1,
    )


async def test_a_waiting_turn_with_more_crashes_than_asked_for_is_left_too(store: Stand) -> None:
    await submit_one(store)
    await lose(store, 1)
    await settle_one(store, await claimed(store), RELEASE)

    (answer,) = await claim(store.database, terms(), [replace(make_claim(), most_crashes=0)])

    assert answer == LeftToRecovery(crashes=1)
    assert isinstance(await claim_one(store), ClaimedTurn)


async def test_a_turn_is_taken_over_with_as_many_crashes_as_asked_for(store: Stand) -> None:
    await submit_one(store)
    await lose(store, 2)

    (answer,) = await claim(store.database, terms(), [replace(make_claim(), most_crashes=2)])

    assert isinstance(answer, ClaimedTurn)
    assert answer.crashes == 2


@pytest.mark.parametrize("settlement", [RETRY, SNOOZE], ids=["retried", "snoozed"])
async def test_a_run_that_came_to_its_own_end_clears_the_turns_crashes(store: Stand, settlement: Settlement) -> None:
    await submit_one(store)
    await lose(store, 2)
    turn = await claimed(store)

    await settle_one(store, turn, settlement)

    assert (await row_of(store, turn.id))["crashes"] == 0


async def test_a_turn_that_was_handed_back_keeps_its_crashes(store: Stand) -> None:
    await submit_one(store)
    await lose(store, 1)
    turn = await claimed(store)

    await settle_one(store, turn, RELEASE)

    assert (await row_of(store, turn.id))["crashes"] == 1


async def test_recovery_finds_what_is_lost_with_the_fewest_crashes_first(store: Stand) -> None:
    for session in ("once", "twice", "living", "never"):
        await submit_one(store, session_id=session)
    await claim_one(store, session_id="twice")
    await pass_lease(store)
    for session in ("once", "twice"):
        await claim_one(store, session_id=session)
    await pass_lease(store)
    await claim_one(store, session_id="living")

    found = await find_lost(store.database, QUEUE, 10)

    assert [(lost.session_id, lost.crashes) for lost in found] == [("once", 1), ("twice", 2)]
    assert await find_lost(store.database, "other", 10) == []
    assert len(await find_lost(store.database, QUEUE, 1)) == 1


async def test_recovery_leaves_out_the_tenants_that_it_has_no_room_for(store: Stand) -> None:
    for tenant in ("full", "other"):
        await submit_one(store, tenant_id=tenant)
        await claim_one(store, tenant_id=tenant)
    await pass_lease(store)

    found = await find_lost(store.database, QUEUE, 1, but_tenants=["full"])

    assert [lost.tenant_id for lost in found] == ["other"]


async def test_recovery_finds_a_waiting_turn_with_a_crash_once_it_is_due(store: Stand) -> None:
    await submit_one(store)
    await lose(store, 1)
    await settle_one(store, await claimed(store), RELEASE)

    (found,) = await find_lost(store.database, QUEUE, 10)

    assert (found.session_id, found.crashes) == ("s", 1)


async def test_the_last_crash_fails_the_turn_and_wakes_its_heir(store: Stand) -> None:
    await submit_one(store)
    heir = await submit_one(store)
    turn = await lose(store, MAX_CRASHES)

    ended = await claim_one(store)

    assert isinstance(ended, EndedAtClaim)
    assert (ended.turn_id, ended.status, ended.error_class) == (turn.id, TurnStatus.FAILED, "crash_loop")
    row = await row_of(store, turn.id)
    assert (row["crashes"], row["attempt"], row["lease_until"]) == (MAX_CRASHES, MAX_CRASHES, None)
    assert row["send_at"] == row["finished_at"], "a dead letter is owed"
    assert row["error"] == f"its worker was lost in attempt {MAX_CRASHES}"
    assert await outcomes(store, turn.id) == [(1, "lost"), (2, "lost"), (3, "lost")]
    assert (await row_of(store, heir.turn_id))["send_at"] == row["finished_at"]


@pytest.mark.parametrize("halt", [True, False], ids=["halting", "dead-lettering"])
@pytest.mark.parametrize("heirs", [0, 1])
async def test_an_end_whose_answer_was_lost_is_found_by_its_claim_and_its_heir_left_alone(
    store: Stand, halt: bool, heirs: int
) -> None:
    await submit_one(store)
    waiting = [await submit_one(store) for _ in range(heirs)]
    await lose(store, MAX_CRASHES)
    request = make_claim()
    first = await claim(store.database, terms(halt=halt), [request])

    again = await claim(store.database, terms(halt=halt), [replace(request, again=True)])

    assert isinstance(first[0], EndedAtClaim)
    assert again == first
    assert [(await row_of(store, heir.turn_id))["status"] for heir in waiting] == ["PENDING"] * heirs


async def test_an_end_is_found_after_others_have_gone_on(store: Stand) -> None:
    for _ in range(4):
        await submit_one(store)
    await lose(store, MAX_CRASHES)
    request = make_claim()
    first = await claim(store.database, terms(), [request])
    await settle_one(store, await claimed(store, "worker-b"))
    await settle_one(store, await claimed(store, "worker-b"), FAILURE)
    await claimed(store, "worker-b")

    assert await claim(store.database, terms(), [replace(request, again=True)]) == first


async def test_an_end_is_told_in_its_place_among_claims(store: Stand) -> None:
    await submit_one(store, session_id="s")
    await submit_one(store, session_id="b")
    await lose(store, MAX_CRASHES)
    ended = make_claim("s")
    first = await claim(store.database, terms(), [ended])

    answers = await claim(store.database, terms(), [make_claim("b"), replace(ended, again=True), make_claim("nowhere")])

    assert isinstance(answers[0], ClaimedTurn)
    assert answers[1:] == [*first, NoClaim.UNKNOWN]


async def test_a_lost_attempt_costs_the_turn_no_time(store: Stand) -> None:
    """Neither its run nor the recovery: `expires_at` moves by both."""
    await submit_one(store, expires_in_seconds=10)
    await store.pass_time(4)
    await lose(store, 1)
    await store.pass_time(1000)

    turn = await claimed(store)

    assert (turn.attempt, turn.expires_in_seconds) == (2, 6.0)


async def test_a_first_attempt_is_made_however_late(store: Stand) -> None:
    await submit_one(store, expires_in_seconds=10)
    await store.pass_time(1000)

    turn = await claimed(store)

    assert turn.expires_in_seconds == -990.0


@pytest.mark.parametrize("crashes", [1, MAX_CRASHES])
async def test_a_lost_turn_that_was_to_be_cancelled_is_cancelled(store: Stand, crashes: int) -> None:
    accepted = await submit_one(store)
    await lose(store, crashes)
    await cancel(store.database, "t", accepted.turn_id, CancelReason.USER)

    ended = await claim_one(store)

    assert isinstance(ended, EndedAtClaim)
    assert (ended.status, ended.error_class) == (TurnStatus.CANCELED, None)
    assert (await row_of(store, accepted.turn_id))["send_at"] is None
