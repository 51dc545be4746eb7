"""Cancel: a waiting turn ends at once, a running turn is asked to stop, and the session goes on."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from tests.statements.calls import (
    CANCELED,
    FAILURE,
    LEASE_SECONDS,
    RETRY,
    SUCCESS,
    claim_one,
    claimed,
    row_of,
    settle_one,
    submit_one,
    wake_head,
)
from tests.statements.store import START, Store
from turnstile.statements.cancel import CanceledTurn, cancel
from turnstile.statements.claim import NoClaim
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.settlement import Settlement
from turnstile.turn.status import TurnStatus


async def canceled(store: Store, turn_id: UUID, tenant_id: str = "t") -> CanceledTurn | None:
    return await cancel(store.database, tenant_id, turn_id, CancelReason.USER)


# --- the turn


async def test_a_waiting_turn_is_cancelled_at_once(store: Store) -> None:
    accepted = await submit_one(store)

    answer = await canceled(store, accepted.turn_id)

    row = await row_of(store, accepted.turn_id)
    assert answer == CanceledTurn(TurnStatus.CANCELED, requested=True, session_id="s")
    assert (row["status"], row["send_at"], row["cancel_reason"]) == ("CANCELED", None, "user")
    assert row["finished_at"] == row["cancel_requested_at"] == START
    assert await claim_one(store) is NoClaim.IDLE


async def test_a_scheduled_turn_is_cancelled_without_a_place(store: Store) -> None:
    accepted = await submit_one(store, execute_at=START + timedelta(hours=1))

    await canceled(store, accepted.turn_id)

    row = await row_of(store, accepted.turn_id)
    assert (row["status"], row["seq"]) == ("CANCELED", None)


async def test_a_running_turn_is_asked_to_stop_and_the_first_request_counts(store: Store) -> None:
    accepted = await submit_one(store)
    turn = await claimed(store)
    answer = await canceled(store, accepted.turn_id)
    await store.pass_time(5)
    await cancel(store.database, "t", accepted.turn_id, CancelReason.TIMEOUT)

    row = await row_of(store, accepted.turn_id)
    assert answer == CanceledTurn(TurnStatus.RUNNING, requested=True, session_id="s")
    assert (row["status"], row["cancel_reason"], row["cancel_requested_at"]) == ("RUNNING", "user", START)
    assert row["lease_until"] == START + timedelta(seconds=LEASE_SECONDS)
    assert (await claim_one(store), turn.attempt) == (NoClaim.RUNNING, 1)


@pytest.mark.parametrize("settlement", [SUCCESS, FAILURE, CANCELED], ids=lambda one: one.outcome)
async def test_a_cancel_of_an_ended_turn_changes_nothing(store: Store, settlement: Settlement) -> None:
    turn_id = (await submit_one(store)).turn_id
    await settle_one(store, await claimed(store), settlement)
    before = await store.snapshot()

    answer = await canceled(store, turn_id)

    assert answer == CanceledTurn(settlement.status, requested=False, session_id="s")
    assert await store.snapshot() == before


async def test_a_tenant_cannot_cancel_the_turn_of_another(store: Store) -> None:
    accepted = await submit_one(store)

    assert await canceled(store, accepted.turn_id, "other") is None
    assert await canceled(store, uuid4()) is None
    assert (await row_of(store, accepted.turn_id))["status"] == "PENDING"


# --- the session's head


async def test_the_turn_behind_a_cancelled_head_is_made_due_and_its_wake_up_returned(store: Store) -> None:
    head, following, third = [await submit_one(store) for _ in range(3)]
    await settle_one(store, await claimed(store), RETRY)
    await store.pass_time(1)
    before = await row_of(store, third.turn_id)

    answer = await canceled(store, head.turn_id)

    assert answer is not None
    assert answer.woken is not None
    queue, message = answer.woken
    row = await row_of(store, following.turn_id)
    assert (queue, message.wake_up.session_id, message.wake_up.turn_id) == ("turns", "s", following.turn_id)
    assert row["trace_id"] in message.traceparent
    assert row["send_at"] == START + timedelta(seconds=1)
    assert await row_of(store, third.turn_id) == before
    assert (await claimed(store)).seq == 2


async def test_a_cancel_behind_the_head_wakes_the_head_that_is_due(store: Store) -> None:
    head = await submit_one(store)
    behind = await submit_one(store)

    answer = await canceled(store, behind.turn_id)

    assert answer is not None
    assert answer.woken is not None
    assert answer.woken[1].wake_up.turn_id == head.turn_id


async def test_a_head_that_waits_for_its_retry_is_not_woken(store: Store) -> None:
    await submit_one(store)
    behind = await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    assert await canceled(store, behind.turn_id) == CanceledTurn(TurnStatus.CANCELED, requested=True, session_id="s")
    assert await wake_head(store) == []
