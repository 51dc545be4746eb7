"""Who waits behind a tenant's backlog, on both stores: another tenant with a turn of the queue that could be claimed now."""

from datetime import timedelta

import pytest

from tests.statements.calls import FAILURE, QUEUE, claimed, settle_one, submit_one
from tests.support.fakes.store_stands import ORIGIN, START_SECONDS, Stand
from turnstile.statements.waiting_tenants import find_waiting_tenant

LATER = ORIGIN + timedelta(seconds=START_SECONDS, hours=1)


async def found(store: Stand, beside: str = "flood") -> str | None:
    return await find_waiting_tenant(store.database, QUEUE, beside)


async def test_another_tenant_is_found_whatever_its_name(store: Stand) -> None:
    for tenant in ("a", "flood", "flood", "z"):
        await submit_one(store, tenant_id=tenant, session_id=tenant)

    assert await found(store) == "a"
    assert await found(store, beside="a") == "flood"


async def test_a_tenant_without_others_finds_none(store: Stand) -> None:
    for session in ("a", "b"):
        await submit_one(store, tenant_id="flood", session_id=session)

    assert await found(store) is None


async def test_turns_of_another_queue_and_later_turns_do_not_count(store: Stand) -> None:
    await submit_one(store, tenant_id="a", queue="other")
    await submit_one(store, tenant_id="b", execute_at=LATER)

    assert await found(store) is None


async def test_what_waits_for_its_own_session_does_not_count(store: Stand) -> None:
    await submit_one(store)
    await submit_one(store)
    await claimed(store)

    assert await found(store) is None


async def test_a_halted_session_does_not_count(store: Stand) -> None:
    for _ in range(2):
        await submit_one(store)
    await settle_one(store, await claimed(store), FAILURE, halt=True)

    assert await found(store) is None


@pytest.mark.parametrize("sessions", [1, 3])
async def test_behind_a_session_that_is_busy_the_next_counts(store: Stand, sessions: int) -> None:
    for session in ("s", "s", *(f"t{n}" for n in range(sessions))):
        await submit_one(store, session_id=session)
    await claimed(store)

    assert await found(store) == "t"
