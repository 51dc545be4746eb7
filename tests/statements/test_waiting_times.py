"""When a turn began to wait, when it first started and when each attempt was due: the facts of all latencies."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tests.statements.calls import (
    FAILURE,
    RELEASE,
    RETRY,
    SNOOZE,
    claimed,
    pass_lease,
    row_of,
    seconds_from_creation,
    settle_one,
    submit_one,
)
from tests.statements.store import START, Store
from turnstile.ops.turns.attempts import read_attempts
from turnstile.statements.cancel import cancel
from turnstile.statements.revive import revive
from turnstile.statements.settle import Settled
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import start_trace
from turnstile.turn.settlement import Settlement


async def waits(store: Store, turn_id: UUID) -> tuple[float | None, float | None]:
    """When the turn was queued and first started, in seconds after its submit."""
    return (
        await seconds_from_creation(store, turn_id, "queued_at"),
        await seconds_from_creation(store, turn_id, "first_started_at"),
    )


async def test_a_turn_waits_from_its_submit_to_its_first_start(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    assert await waits(store, turn_id) == (0, None)

    await store.pass_time(3)
    await claimed(store)

    assert await waits(store, turn_id) == (0, 3)


async def test_a_scheduled_turn_waits_from_its_schedule(store: Store) -> None:
    due = START + timedelta(seconds=60)

    turn_id = (await submit_one(store, execute_at=due)).turn_id

    assert await waits(store, turn_id) == (60, None)


@pytest.mark.parametrize("settlement", [RETRY, SNOOZE, RELEASE], ids=["retry", "snooze", "hand-back"])
async def test_a_later_attempt_changes_neither(store: Store, settlement: Settlement) -> None:
    turn_id = (await submit_one(store)).turn_id
    await store.pass_time(3)
    await settle_one(store, await claimed(store), settlement)
    await store.pass_time(20)

    await claimed(store)

    assert await waits(store, turn_id) == (0, 3)


async def test_a_takeover_changes_neither(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    await store.pass_time(3)
    await claimed(store)
    await pass_lease(store)

    await claimed(store, "worker-b")

    assert await waits(store, turn_id) == (0, 3)


async def test_a_session_s_next_turn_starts_with_the_settle_that_claims_it(store: Store) -> None:
    await submit_one(store)
    following = (await submit_one(store)).turn_id
    turn = await claimed(store)
    await store.pass_time(5)

    await settle_one(store, turn, more=True)

    assert await waits(store, following) == (0, 5)


@pytest.mark.parametrize("settlement", [RETRY, SNOOZE, RELEASE], ids=["retry", "snooze", "hand-back"])
async def test_only_the_first_claim_of_a_generation_says_how_long_the_turn_waited(
    store: Store, settlement: Settlement
) -> None:
    turn_id = (await submit_one(store)).turn_id
    await store.pass_time(3)
    first = await claimed(store)
    await settle_one(store, first, settlement)
    await store.pass_time(20)
    second = await claimed(store)
    await settle_one(store, second, FAILURE)
    await revive(
        store.database, [(turn_id, 1)], [start_trace(1 << 64 | 1)], expires_in_seconds=[900], resend_seconds=60
    )
    await store.pass_time(4)

    assert [turn.waited_seconds for turn in (first, second, await claimed(store))] == [3, None, 4]


async def test_a_turn_that_a_settle_claims_says_how_long_it_waited(store: Store) -> None:
    await submit_one(store)
    await submit_one(store)
    turn = await claimed(store)
    await store.pass_time(5)

    settled = await settle_one(store, turn, more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.waited_seconds == 5


async def test_a_redriven_turn_waits_again(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    await settle_one(store, await claimed(store), FAILURE)
    await store.pass_time(100)

    await revive(
        store.database, [(turn_id, 1)], [start_trace(1 << 64 | 1)], expires_in_seconds=[900], resend_seconds=60
    )

    assert await waits(store, turn_id) == (100, None)


async def test_an_attempt_knows_when_it_was_due(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    await store.pass_time(3)
    await settle_one(store, await claimed(store), RETRY)
    await store.pass_time(20)
    await settle_one(store, await claimed(store), SNOOZE)
    await store.pass_time(20)
    await claimed(store)
    await pass_lease(store)
    await claimed(store, "worker-b")

    created_at = (await row_of(store, turn_id))["created_at"]
    attempts = await read_attempts(store.database, "t", turn_id)
    due = [one.due_at and (one.due_at - created_at).total_seconds() for one in attempts]
    # The retry waits for 10 s after second 3, the snooze for 7.5 s after second 23.
    assert [(one.outcome, at) for one, at in zip(attempts, due, strict=True)] == [
        ("retried", 0),
        ("snoozed", 13),
        ("lost", 30.5),
    ]


async def test_an_attempt_keeps_where_its_handler_raised(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id

    await settle_one(store, await claimed(store), replace(RETRY, traceback="File handler.py, line 3"))

    (attempt,) = await read_attempts(store.database, "t", turn_id)
    assert (attempt.error, attempt.traceback) == ("boom", "File handler.py, line 3")


async def test_the_reason_of_a_snooze_is_in_the_attempt_and_is_not_an_error_of_the_turn(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id

    await settle_one(store, await claimed(store), replace(SNOOZE, error="the model is busy"))

    (attempt,) = await read_attempts(store.database, "t", turn_id)
    assert (attempt.error_class, attempt.error) == (None, "the model is busy")
    assert (await row_of(store, turn_id))["error"] is None


async def test_the_reason_of_a_snooze_is_not_an_error_of_a_turn_that_was_canceled_meanwhile(store: Store) -> None:
    turn_id = (await submit_one(store)).turn_id
    turn = await claimed(store)
    await cancel(store.database, "t", turn_id, CancelReason.USER)

    await settle_one(store, turn, replace(SNOOZE, error="the model is busy"))

    row = await row_of(store, turn_id)
    assert (row["status"], row["error"]) == ("CANCELED", None)
