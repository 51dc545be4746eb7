"""Defer: the session is owed a wake-up within the time, and no turn is sent before it is due."""

from datetime import timedelta

from tests.statements.calls import (
    RESEND_SECONDS,
    RETRY,
    claimed,
    defer_session,
    row_of,
    seconds_from_creation,
    set_resend_deadline,
    settle_one,
    submit_one,
    take_due,
)
from tests.statements.store import START, Store
from turnstile.statements.defer import Defer, defer


async def send_in(store: Store, turn_id: object) -> float | None:
    return await seconds_from_creation(store, turn_id, "send_at")  # type: ignore[arg-type]


async def test_a_deferred_session_is_owed_a_wake_up_for_its_head(store: Store) -> None:
    head, behind = await submit_one(store), await submit_one(store)

    await defer_session(store, 5.0)

    assert await send_in(store, head.turn_id) == 5.0
    assert await send_in(store, behind.turn_id) == RESEND_SECONDS


async def test_an_earlier_wake_up_stays(store: Store) -> None:
    head = await submit_one(store)

    await defer_session(store, 2 * RESEND_SECONDS)

    assert await send_in(store, head.turn_id) == RESEND_SECONDS


async def test_behind_a_running_head_the_next_turn_is_owed_the_wake_up(store: Store) -> None:
    # Its worker may have looked for the next turn just before it was submitted.
    head, behind = await submit_one(store), await submit_one(store)
    await claimed(store)

    await defer_session(store, 5.0)

    assert await send_in(store, head.turn_id) is None
    assert await send_in(store, behind.turn_id) == 5.0


async def test_a_retry_that_waits_is_not_sent_earlier(store: Store) -> None:
    head = await submit_one(store)
    await settle_one(store, await claimed(store), RETRY)

    await defer_session(store, 5.0)

    assert await send_in(store, head.turn_id) == RETRY.after_seconds


async def test_a_scheduled_turn_is_not_sent_earlier(store: Store) -> None:
    scheduled = await submit_one(store, execute_at=START + timedelta(hours=1))

    await defer_session(store, 5.0)

    assert await send_in(store, scheduled.turn_id) == 3600


async def test_the_resend_deadline_of_a_deferred_turn_starts_again(store: Store) -> None:
    head = await submit_one(store)
    await store.pass_time(RESEND_SECONDS)
    await set_resend_deadline(store, *await take_due(store))
    assert (await row_of(store, head.turn_id))["sends"] == 1

    await defer_session(store, 5.0)

    assert (await row_of(store, head.turn_id))["sends"] == 0


async def test_one_statement_defers_several_sessions_also_one_of_them_twice(store: Store) -> None:
    a, b = await submit_one(store, session_id="a"), await submit_one(store, session_id="b")

    await defer(store.database, [Defer("t", session, 5.0) for session in ("b", "a", "b", "unknown")])

    assert [await send_in(store, one.turn_id) for one in (a, b)] == [5.0, 5.0]
