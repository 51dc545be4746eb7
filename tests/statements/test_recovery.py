"""Finding lost turns: fewest crashes first, and without the tenants that have no free slot."""

from tests.statements.calls import QUEUE, RELEASE, claim_one, claimed, lose, pass_lease, settle_one, submit_one
from tests.statements.store import Store
from turnstile.statements.lost_turns import find_lost


async def test_lost_turns_are_found_fewest_crashes_first(store: Store) -> None:
    for session in ("once", "twice", "living", "never"):
        await submit_one(store, session_id=session)
    await claim_one(store, session_id="twice")
    await pass_lease(store)
    for session in ("once", "twice"):
        await claim_one(store, session_id=session)
    await pass_lease(store)
    await claim_one(store, session_id="living")

    found = await find_lost(store.database, QUEUE, 10)

    assert [(lost.session_id, lost.crashes) for lost in found] == [("once", 1), ("twice", 2)]
    assert await find_lost(store.database, "other", 10) == []
    assert len(await find_lost(store.database, QUEUE, 1)) == 1


async def test_turns_of_the_named_tenants_are_left_out(store: Store) -> None:
    for tenant in ("full", "other"):
        await submit_one(store, tenant_id=tenant)
        await claim_one(store, tenant_id=tenant)
    await pass_lease(store)

    found = await find_lost(store.database, QUEUE, 1, but_tenants=["full"])

    assert [lost.tenant_id for lost in found] == ["other"]


async def test_a_waiting_turn_with_a_crash_is_found(store: Store) -> None:
    await submit_one(store)
    await lose(store, 1)
    await settle_one(store, await claimed(store), RELEASE)

    (found,) = await find_lost(store.database, QUEUE, 10)

    assert (found.session_id, found.crashes) == ("s", 1)
