"""A crash loop: the claim after the last crash ends the turn."""

import pytest

from tests.statements.calls import (
    MAX_CRASHES,
    claim_one,
    lose,
    outcomes,
    row_of,
    submit_one,
    terms,
)
from tests.statements.store import Store
from tests.support.factories import make_claim
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import EndedAtClaim, NoClaim, claim
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus


async def test_the_claim_after_the_last_crash_fails_the_turn_and_makes_the_next_one_due(store: Store) -> None:
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


@pytest.mark.parametrize("crashes", [1, MAX_CRASHES])
async def test_a_lost_turn_with_a_cancel_request_is_cancelled(store: Store, crashes: int) -> None:
    accepted = await submit_one(store)
    await lose(store, crashes)
    await cancel(store.database, "t", accepted.turn_id, CancelReason.USER)

    ended = await claim_one(store)

    assert isinstance(ended, EndedAtClaim)
    assert (ended.status, ended.error_class) == (TurnStatus.CANCELED, None)
    assert (await row_of(store, accepted.turn_id))["send_at"] is None


async def test_a_claim_that_is_repeated_after_it_ended_the_head_claims_the_next_turn(store: Store) -> None:
    await submit_one(store, session_id="s")
    following = await submit_one(store, session_id="s")
    await submit_one(store, session_id="b")
    await lose(store, MAX_CRASHES)
    requests = [make_claim("b"), make_claim("s"), make_claim("nowhere")]
    other, ended, _ = await claim(store.database, terms(), requests)

    again = await claim(store.database, terms(), requests)

    assert isinstance(ended, EndedAtClaim)
    assert isinstance(again[1], ClaimedTurn)
    assert (again[0], again[1].id, again[2]) == (other, following.turn_id, NoClaim.UNKNOWN)
