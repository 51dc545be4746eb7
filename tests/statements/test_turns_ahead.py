"""Turns ahead: due heads with a head start that count as submitted before what comes from the queue now."""

from datetime import timedelta
from uuid import UUID

from tests.statements.calls import FAILURE, QUEUE, claimed, settle_one, submit_one
from tests.statements.store import START, Store
from turnstile.statements.turns_ahead import find_ahead

BEHIND = 60.0
LATER = START + timedelta(hours=1)


async def found(store: Store, behind: float = BEHIND, *, but_tenants: tuple[str, ...] = ()) -> list[UUID]:
    turns = await find_ahead(store.database, QUEUE, behind, 10, but_tenants=but_tenants)
    return [turn.turn_id for turn in turns]


async def test_a_turn_comes_ahead_once_its_head_start_and_its_wait_reach_the_wait_in_the_queue(store: Store) -> None:
    ahead = await submit_one(store, session_id="a", priority_seconds=100)
    await submit_one(store, session_id="b", priority_seconds=20)
    await submit_one(store, session_id="c")

    assert await found(store) == [ahead.turn_id]
    assert await found(store, behind=200.0) == []


async def test_the_turn_that_counts_as_oldest_comes_first(store: Store) -> None:
    second = await submit_one(store, session_id="a", priority_seconds=100)
    first = await submit_one(store, session_id="b", priority_seconds=200)

    assert await found(store) == [first.turn_id, second.turn_id]


async def test_a_turn_behind_another_turn_of_its_session_waits(store: Store) -> None:
    await submit_one(store)
    await submit_one(store, priority_seconds=100)

    assert await found(store) == []


async def test_a_scheduled_a_running_and_a_halted_turn_do_not_come(store: Store) -> None:
    await submit_one(store, session_id="later", priority_seconds=3600, execute_at=LATER)
    for _ in range(2):
        await submit_one(store, priority_seconds=100)
    turn = await claimed(store)

    assert await found(store) == []
    await settle_one(store, turn, FAILURE, halt=True)
    assert await found(store) == []


async def test_a_tenant_that_has_its_share_is_left_out(store: Store) -> None:
    await submit_one(store, tenant_id="flood", priority_seconds=100)

    assert await found(store, but_tenants=("flood",)) == []
