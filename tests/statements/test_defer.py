"""Putting a session off, on both stores: it is owed a wake-up within the time, and no turn is sent before its own."""

from datetime import timedelta

from tests.statements.calls import (
    NET_SECONDS,
    RETRY,
    claimed,
    put_net,
    put_off_session,
    row_of,
    seconds_from_creation,
    settle_one,
    submit_one,
    take_due,
)
from tests.support.fakes.store_stands import ORIGIN, START_SECONDS, Stand
from turnstile.statements.defer import Defer, defer

NOW = ORIGIN + timedelta(seconds=START_SECONDS)


async def send_in(store: Stand, turn_id: object) -> float | None:
    return await seconds_from_creation(store, turn_id, "send_at")  # type: ignore[arg-type]


async def test_the_head_is_owed_a_wake_up_in_so_many_seconds(store: Stand) -> None:
    head, behind = await submit_one(store), await submit_one(store)

    await put_off_session(store, 5.0)

    assert await send_in(store, head.turn_id) == 5.0
    assert await send_in(store, behind.turn_id) == NET_SECONDS


async def test_what_is_owed_earlier_stays_so(store: Stand) -> None:
    head = await submit_one(store)

    await put_off_session(store, 2 * NET_SECONDS)

    assert await send_in(store, head.turn_id) == NET_SECONDS


async def test_behind_a_running_head_the_next_turn_is_put_off(store: Stand) -> None:
    # Its holder may have looked for the next one a moment before it was there.
    head, behind = await submit_one(store), await submit_one(store)
    await claimed(store)

    await put_off_session(store, 5.0)

    assert await send_in(store, head.turn_id) is None
    assert await send_in(store, behind.turn_id) == 5.0


async def test_a_retry_is_not_sent_before_its_time(store: Stand) -> None:
    head = await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    await put_off_session(store, 5.0)

    assert await send_in(store, head.turn_id) == RETRY.after_seconds


async def test_a_scheduled_turn_without_a_place_is_left_alone(store: Stand) -> None:
    scheduled = await submit_one(store, execute_at=NOW + timedelta(hours=1))

    await put_off_session(store, 5.0)

    assert await send_in(store, scheduled.turn_id) == 3600


async def test_the_net_of_a_turn_that_was_put_off_begins_anew(store: Stand) -> None:
    head = await submit_one(store)
    await store.pass_time(NET_SECONDS)
    await put_net(store, *await take_due(store))
    assert (await row_of(store, head.turn_id))["sends"] == 1

    await put_off_session(store, 5.0)

    assert (await row_of(store, head.turn_id))["sends"] == 0


async def test_one_statement_puts_off_many_and_one_of_them_twice(store: Stand) -> None:
    a, b = await submit_one(store, session_id="a"), await submit_one(store, session_id="b")

    await defer(store.database, [Defer("t", session, 5.0) for session in ("b", "a", "b", "nobody's")])

    assert [await send_in(store, one.turn_id) for one in (a, b)] == [5.0, 5.0]
