"""A crash loop, on both stores: the last crash ends the turn at its claim, and the end is found again after a lost answer."""

from dataclasses import replace

import pytest

from tests.statements.calls import (
    FAILURE,
    MAX_CRASHES,
    claim_one,
    claimed,
    lose,
    outcomes,
    row_of,
    settle_one,
    submit_one,
    terms,
)
from tests.support.factories import make_claim
from tests.support.fakes.store_stands import Stand
from turnstile.statements.cancel import cancel
from turnstile.statements.claim import EndedAtClaim, NoClaim, claim
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus


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


@pytest.mark.parametrize("crashes", [1, MAX_CRASHES])
async def test_a_lost_turn_that_was_to_be_cancelled_is_cancelled(store: Stand, crashes: int) -> None:
    accepted = await submit_one(store)
    await lose(store, crashes)
    await cancel(store.database, "t", accepted.turn_id, CancelReason.USER)

    ended = await claim_one(store)

    assert isinstance(ended, EndedAtClaim)
    assert (ended.status, ended.error_class) == (TurnStatus.CANCELED, None)
    assert (await row_of(store, accepted.turn_id))["send_at"] is None
