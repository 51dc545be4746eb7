"""The relay's statements: a due row is taken by one relay at a time, and owed again until it is sent."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.statements.calls import (
    ALL,
    FAILURE,
    LEASE_SECONDS,
    QUEUE,
    QUIET_FAILURE,
    RESEND_SECONDS,
    RETRY,
    STAMP_SECONDS,
    TAKEOVER_RESEND_SECONDS,
    claimed,
    mark_lost,
    row_of,
    set_resend_deadline,
    settle_one,
    submit_one,
    take_due,
)
from tests.statements.store import START, Store
from turnstile.statements.cancel import cancel
from turnstile.statements.owed_messages import DEAD_LETTERED, MAX_RESEND_SECONDS
from turnstile.statements.place_scheduled import PLACE_SCHEDULED
from turnstile.statements.renew_lease import renew
from turnstile.turn.cancel_reason import CancelReason


async def taken(store: Store) -> list[UUID]:
    return [row["id"] for row in await take_due(store)]


async def dead_lettered(store: Store, turn_id: UUID, generation: int) -> None:
    await store.database.fetch(DEAD_LETTERED, {"ids": [turn_id], "generations": [generation]})


async def send_in(store: Store, turn_id: UUID) -> float | None:
    """Seconds from the submit of a turn until it is owed a message; None if it is owed none."""
    row = await row_of(store, turn_id)
    return None if row["send_at"] is None else (row["send_at"] - row["created_at"]).total_seconds()


# --- due rows


async def test_nothing_is_taken_before_its_time(store: Store) -> None:
    await submit_one(store)
    await store.pass_time(RESEND_SECONDS - 0.000001)

    assert await taken(store) == []


async def test_a_due_row_is_stamped_so_that_no_other_relay_takes_it(store: Store) -> None:
    accepted = await submit_one(store)
    await store.pass_time(RESEND_SECONDS)

    assert await taken(store) == [accepted.turn_id]
    assert await taken(store) == []
    assert await send_in(store, accepted.turn_id) == RESEND_SECONDS + STAMP_SECONDS
    await store.pass_time(STAMP_SECONDS)
    assert await taken(store) == [accepted.turn_id]


async def test_the_earliest_are_taken_first(store: Store) -> None:
    accepted = []
    for _ in range(5):
        accepted.append((await submit_one(store)).turn_id)
        await store.pass_time(1)
    await store.pass_time(RESEND_SECONDS)

    first = await take_due(store, limit=2)
    rest = await take_due(store, limit=4)

    assert {row["id"] for row in first} == set(accepted[:2])
    assert {row["id"] for row in rest} == set(accepted[2:])


async def test_a_row_older_than_the_reach_is_left_to_the_full_scan(store: Store) -> None:
    old = await submit_one(store)
    await store.pass_time(100)
    young = await submit_one(store)
    await store.pass_time(RESEND_SECONDS)

    assert [row["id"] for row in await take_due(store, reach=100)] == [young.turn_id]
    assert [row["id"] for row in await take_due(store)] == [old.turn_id]


# --- the resend deadline


async def test_the_resend_deadline_doubles_with_each_send_up_to_an_hour(store: Store) -> None:
    accepted = await submit_one(store)
    waits = []
    for _ in range(8):
        await store.pass_time(MAX_RESEND_SECONDS)
        (row,) = await take_due(store)
        await set_resend_deadline(store, row)
        now = row["send_at"] - timedelta(seconds=STAMP_SECONDS)
        waits.append(((await row_of(store, accepted.turn_id))["send_at"] - now).total_seconds())

    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert (await row_of(store, accepted.turn_id))["sends"] == 8


async def test_the_resend_deadline_starts_again_when_a_turn_becomes_the_head(store: Store) -> None:
    first, second = await submit_one(store), await submit_one(store)
    for _ in range(3):
        await store.pass_time(MAX_RESEND_SECONDS)
        for row in await take_due(store):
            await set_resend_deadline(store, row)
    assert (await row_of(store, second.turn_id))["sends"] == 3

    await cancel(store.database, "t", first.turn_id, CancelReason.USER)

    assert (await row_of(store, second.turn_id))["sends"] == 0


async def test_the_resend_deadline_starts_again_after_a_settle(store: Store) -> None:
    accepted = await submit_one(store)
    await store.pass_time(RESEND_SECONDS)
    await set_resend_deadline(store, *await take_due(store))
    assert (await row_of(store, accepted.turn_id))["sends"] == 1

    await settle_one(store, await claimed(store), RETRY)

    assert (await row_of(store, accepted.turn_id))["sends"] == 0


async def test_a_resend_deadline_does_not_replace_another_stamp(store: Store) -> None:
    accepted = await submit_one(store)
    await store.pass_time(RESEND_SECONDS)
    (row,) = await take_due(store)
    await store.pass_time(STAMP_SECONDS)
    await take_due(store)
    before = await store.snapshot()

    await set_resend_deadline(store, row)

    assert await store.snapshot() == before
    assert (await row_of(store, accepted.turn_id))["sends"] == 0


async def test_a_turn_that_was_claimed_meanwhile_gets_no_resend_deadline(store: Store) -> None:
    accepted = await submit_one(store)
    await store.pass_time(RESEND_SECONDS)
    (row,) = await take_due(store)
    await claimed(store)

    await set_resend_deadline(store, row)

    assert await send_in(store, accepted.turn_id) is None


# --- leases


async def test_a_lost_turn_is_owed_a_wake_up_again_and_again(store: Store) -> None:
    accepted = await submit_one(store)
    await claimed(store)
    await store.pass_time(LEASE_SECONDS)
    await mark_lost(store)
    assert await taken(store) == [], "the lease is valid up to its last moment"
    await store.pass_time(1)

    await mark_lost(store)

    assert await taken(store) == [accepted.turn_id]
    assert await send_in(store, accepted.turn_id) == LEASE_SECONDS + 1 + TAKEOVER_RESEND_SECONDS
    await mark_lost(store)
    assert await taken(store) == []
    await store.pass_time(TAKEOVER_RESEND_SECONDS)
    assert await taken(store) == [accepted.turn_id]


async def test_a_turn_whose_lease_was_renewed_meanwhile_is_owed_nothing(store: Store) -> None:
    accepted = await submit_one(store)
    turn = await claimed(store)
    await store.pass_time(LEASE_SECONDS + 1)
    await mark_lost(store)
    await renew(store.database, [(turn.id, turn.fence)], LEASE_SECONDS)

    assert await take_due(store) == []
    assert await send_in(store, accepted.turn_id) is None
    await store.pass_time(LEASE_SECONDS + 1)
    await mark_lost(store)
    assert await taken(store) == [accepted.turn_id]


# --- scheduled turns


async def place(store: Store, **asked: Any) -> None:
    await store.database.fetch(PLACE_SCHEDULED, {**ALL, "queues": [QUEUE], "limit": 200, **asked})


async def test_a_scheduled_turn_is_placed_behind_all_turns_submitted_before_its_time(store: Store) -> None:
    scheduled = await submit_one(store, execute_at=START + timedelta(seconds=100))
    await submit_one(store)
    await store.pass_time(99)
    await place(store)
    assert (await row_of(store, scheduled.turn_id))["seq"] is None
    await store.pass_time(1)

    assert await taken(store) != [scheduled.turn_id], "it has no place yet"
    await place(store)

    assert (await row_of(store, scheduled.turn_id))["seq"] == 2
    assert await taken(store) == [scheduled.turn_id]


async def test_scheduled_turns_are_placed_in_the_order_of_their_times(store: Store) -> None:
    times = [30, 10, 20]
    accepted = [(await submit_one(store, execute_at=START + timedelta(seconds=after))).turn_id for after in times]
    await store.pass_time(60)

    await place(store)

    assert [(await row_of(store, turn_id))["seq"] for turn_id in accepted] == [3, 1, 2]


async def test_a_scheduled_turn_is_placed_once(store: Store) -> None:
    accepted = await submit_one(store, execute_at=START + timedelta(seconds=10))
    await store.pass_time(10)
    await place(store)
    await submit_one(store)

    await place(store)

    assert (await row_of(store, accepted.turn_id))["seq"] == 1


# --- dead letters


async def test_a_dead_letter_is_owed_until_it_is_sent(store: Store) -> None:
    accepted = await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE)

    (row,) = await take_due(store)
    assert (row["status"], row["generation"], row["error_class"]) == ("FAILED", 1, "Boom")
    await store.pass_time(STAMP_SECONDS)
    assert await taken(store) == [accepted.turn_id]
    await dead_lettered(store, accepted.turn_id, 1)

    after = await row_of(store, accepted.turn_id)
    assert (after["send_at"], (after["dead_lettered_at"] - START).total_seconds()) == (None, STAMP_SECONDS)


async def test_a_dead_letter_of_another_generation_records_nothing(store: Store) -> None:
    accepted = await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE)

    await dead_lettered(store, accepted.turn_id, 2)

    assert (await row_of(store, accepted.turn_id))["dead_lettered_at"] is None


async def test_an_ended_turn_that_owes_nothing_is_never_taken(store: Store) -> None:
    await submit_one(store)
    await settle_one(store, await claimed(store), QUIET_FAILURE)
    await submit_one(store)
    await settle_one(store, await claimed(store))
    await store.pass_time(10 * MAX_RESEND_SECONDS)

    assert await taken(store) == []
