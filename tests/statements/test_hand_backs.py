"""Hand-backs at shutdowns: each claim counts those before it, so that they have an end."""

from dataclasses import replace

import pytest

from tests.statements.calls import (
    FAILURE,
    RELEASE,
    RESEND_SECONDS,
    RETRY,
    SNOOZE,
    claimed,
    pass_lease,
    settle_one,
    submit_one,
)
from tests.statements.store import Store
from turnstile.statements.revive import revive
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.limits import MAX_HAND_BACKS
from turnstile.turn.settlement import Settlement

PAUSE_SECONDS = 60.0
"""Longer than each settlement makes its turn wait."""


async def settle_and_claim(store: Store, *settlements: Settlement) -> ClaimedTurn:
    """Settles one claim after the other; returns the claim after the last."""
    for settlement in settlements:
        await settle_one(store, await claimed(store), settlement)
        await store.pass_time(PAUSE_SECONDS)
    return await claimed(store)


@pytest.mark.parametrize(
    ("settlements", "counted"),
    [
        ([], 0),
        ([RELEASE], 1),
        ([RELEASE] * (MAX_HAND_BACKS - 1), MAX_HAND_BACKS - 1),
        ([RETRY, RELEASE, RELEASE], 2),
        ([RELEASE, RELEASE, RETRY], 0),
        ([RELEASE, RELEASE, RETRY, RELEASE], 1),
        ([RELEASE, replace(RELEASE, error="no slot became free")], 1),
    ],
)
async def test_a_claim_counts_the_hand_backs_since_the_last_retry(
    store: Store, settlements: list[Settlement], counted: int
) -> None:
    await submit_one(store)

    assert (await settle_and_claim(store, *settlements)).hand_backs == counted


async def test_after_a_snooze_the_count_reaches_its_end_only_by_as_many_hand_backs_in_a_row(store: Store) -> None:
    await submit_one(store)
    most = [RELEASE] * (MAX_HAND_BACKS - 2)

    turn = await settle_and_claim(store, RELEASE, SNOOZE, *most)

    assert turn.hand_backs == len(most)


async def test_a_lost_claim_resets_the_count_of_hand_backs(store: Store) -> None:
    await submit_one(store)
    await settle_and_claim(store, RELEASE, RELEASE)
    await pass_lease(store)

    assert (await claimed(store)).hand_backs == 0


async def test_a_redriven_turn_has_no_hand_backs(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    await settle_one(store, await settle_and_claim(store, *[RELEASE] * (MAX_HAND_BACKS - 1)), FAILURE)
    await revive(
        store.database, [(turn_id, 1)], [start_trace(1)], expires_in_seconds=[900], resend_seconds=RESEND_SECONDS
    )

    assert (await settle_and_claim(store, RELEASE)).hand_backs == 1
