"""Takeover: a turn with an expired lease is claimed again once it is marked as lost. Its crashes count."""

from dataclasses import replace

import pytest

from tests.statements.calls import (
    JOIN,
    LEASE_SECONDS,
    QUEUE,
    RELEASE,
    RETRY,
    SNOOZE,
    claim_one,
    claimed,
    lose,
    outcomes,
    pass_lease,
    row_of,
    settle_one,
    submit_one,
    terms,
)
from tests.statements.store import Store
from tests.support.factories import make_claim, make_worker_record
from turnstile.ops.turns.attempts import read_attempts
from turnstile.statements.claim import LeftToTakeover, NoClaim, claim
from turnstile.statements.worker_registry import announce
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement

OVER = LEASE_SECONDS + 1


async def test_a_lease_is_valid_up_to_its_last_moment(store: Store) -> None:
    await submit_one(store)
    await claimed(store)
    await store.pass_time(LEASE_SECONDS)

    assert await claim_one(store, "worker-b") is NoClaim.RUNNING


async def test_a_lost_turn_is_taken_over_under_a_higher_fence(store: Store) -> None:
    await submit_one(store)
    stale = await claimed(store)
    await pass_lease(store)

    successor = await claimed(store, "worker-b")

    assert (successor.id, successor.attempt, successor.crashes) == (stale.id, 2, 1)
    assert successor.fence > stale.fence
    assert (stale.lost_worker, successor.lost_worker) == (None, "worker-a")
    assert await outcomes(store, stale.id) == [(1, "lost")]


@pytest.mark.parametrize(("registered", "release"), [(True, "r7"), (False, "")])
async def test_a_lost_attempt_has_the_release_of_the_worker_that_was_lost(
    store: Store, registered: bool, release: str
) -> None:
    if registered:
        await announce(store.database, make_worker_record(QUEUE, "worker-a", release="r7"))
    await submit_one(store)
    lost = await claimed(store)
    await pass_lease(store)

    await claim(store.database, terms("worker-b", release="r8"), [make_claim()])

    (attempt,) = await read_attempts(store.database, lost.tenant_id, lost.id)
    assert (attempt.outcome, attempt.release) == ("lost", release)


async def test_an_expired_lease_is_not_taken_over_before_the_turn_is_marked_as_lost(store: Store) -> None:
    await submit_one(store)
    await claimed(store)
    await store.pass_time(OVER)

    assert await claim_one(store, "worker-b") is NoClaim.IDLE


async def test_a_lost_turn_with_more_crashes_than_the_request_allows_is_left(store: Store) -> None:
    await submit_one(store)
    turn = await lose(store, 2)

    (answer,) = await claim(store.database, terms(), [replace(make_claim(), most_crashes=1)])

    assert answer == LeftToTakeover(crashes=2)
    row = await row_of(store, turn.id)
    assert (row["status"], row["crashes"]) == ("RUNNING", 1)


async def test_a_waiting_turn_with_more_crashes_than_the_request_allows_is_left(store: Store) -> None:
    await submit_one(store)
    await lose(store, 1)
    await settle_one(store, await claimed(store), RELEASE)

    (answer,) = await claim(store.database, terms(), [replace(make_claim(), most_crashes=0)])

    assert answer == LeftToTakeover(crashes=1)
    assert isinstance(await claim_one(store), ClaimedTurn)


async def test_a_lost_turn_with_as_many_crashes_as_the_request_allows_is_taken_over(store: Store) -> None:
    await submit_one(store)
    await lose(store, 2)

    (answer,) = await claim(store.database, terms(), [replace(make_claim(), most_crashes=2)])

    assert isinstance(answer, ClaimedTurn)
    assert answer.crashes == 2


@pytest.mark.parametrize("settlement", [RETRY, SNOOZE, JOIN], ids=["retried", "snoozed", "joined"])
async def test_an_attempt_that_the_handler_ended_resets_the_crashes(store: Store, settlement: Settlement) -> None:
    await submit_one(store)
    await lose(store, 2)
    turn = await claimed(store)

    await settle_one(store, turn, settlement)

    assert (await row_of(store, turn.id))["crashes"] == 0


async def test_a_released_turn_keeps_its_crashes(store: Store) -> None:
    await submit_one(store)
    await lose(store, 1)
    turn = await claimed(store)

    await settle_one(store, turn, RELEASE)

    assert (await row_of(store, turn.id))["crashes"] == 1


async def test_a_lost_attempt_costs_the_turn_no_time(store: Store) -> None:
    """`expires_at` moves by the lost run and by the recovery."""
    await submit_one(store, expires_in_seconds=10)
    await store.pass_time(4)
    await lose(store, 1)
    await store.pass_time(1000)

    turn = await claimed(store)

    assert (turn.attempt, turn.expires_in_seconds) == (2, 6.0)
