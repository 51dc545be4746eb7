"""Tenants that wait behind the backlog of another: those with a turn of the queue that could be claimed now."""

from datetime import timedelta

from tests.statements.calls import FAILURE, QUEUE, claimed, settle_one, submit_one
from tests.statements.store import START, Store
from turnstile.statements.waiting_tenants import find_waiting_tenant

LATER = START + timedelta(hours=1)


async def found(store: Store, behind: str = "flood") -> str | None:
    return await find_waiting_tenant(store.database, QUEUE, behind)


async def test_another_tenant_is_found_whatever_its_name(store: Store) -> None:
    for tenant in ("a", "flood", "flood", "z"):
        await submit_one(store, tenant_id=tenant, session_id=tenant)

    assert await found(store) == "a"
    assert await found(store, behind="a") == "flood"


async def test_a_tenant_alone_finds_none(store: Store) -> None:
    for session in ("a", "b"):
        await submit_one(store, tenant_id="flood", session_id=session)

    assert await found(store) is None


async def test_turns_of_another_queue_and_later_turns_do_not_count(store: Store) -> None:
    await submit_one(store, tenant_id="a", queue="other")
    await submit_one(store, tenant_id="b", execute_at=LATER)

    assert await found(store) is None


async def test_a_turn_that_waits_for_its_own_session_does_not_count(store: Store) -> None:
    await submit_one(store)
    await submit_one(store)
    await claimed(store)

    assert await found(store) is None


async def test_a_halted_session_does_not_count(store: Store) -> None:
    for _ in range(2):
        await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE, halt=True)

    assert await found(store) is None


async def test_the_tenants_next_session_counts_while_another_is_busy(store: Store) -> None:
    for session in ("s", "s", "t0"):
        await submit_one(store, session_id=session)
    await claimed(store)

    assert await found(store) == "t"
