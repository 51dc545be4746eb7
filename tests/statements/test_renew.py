"""Renew: which leases are renewed, and the cancel requests that come back with the result."""

from datetime import timedelta
from uuid import UUID, uuid4

import psycopg

from tests.statements.calls import LEASE_SECONDS, claimed, pass_lease, seconds_from_creation, settle_one, submit_one
from tests.statements.store import Store
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.cancel import cancel
from turnstile.statements.renew_lease import RENEW, Renewal, renew
from turnstile.turn.cancel_reason import CancelReason


async def renewed(database: Database, leases: list[tuple[UUID, int]], lease_seconds: float) -> list[Renewal]:
    return (await renew(database, leases, lease_seconds)).rows


async def test_a_renewed_lease_counts_from_now(store: Store) -> None:
    await submit_one(store)
    turn = await claimed(store)
    await store.pass_time(10)

    renewals = await renewed(store.database, [(turn.id, turn.fence)], LEASE_SECONDS)

    assert renewals == [Renewal(turn.id, turn.fence, True, True, False, None)]
    assert await seconds_from_creation(store, turn.id, "lease_until") == 10 + LEASE_SECONDS


async def test_an_expired_lease_is_renewed_if_no_other_claim_has_the_turn(store: Store) -> None:
    await submit_one(store)
    turn = await claimed(store)
    await pass_lease(store)

    (renewal,) = await renewed(store.database, [(turn.id, turn.fence)], LEASE_SECONDS)

    assert (renewal.ours, renewal.renewed) == (True, True)


async def test_a_stale_fence_renews_nothing(store: Store) -> None:
    await submit_one(store)
    stale = await claimed(store)
    await pass_lease(store)
    successor = await claimed(store, "worker-b")
    await store.pass_time(1)

    renewals = await renewed(store.database, [(stale.id, stale.fence), (successor.id, successor.fence)], LEASE_SECONDS)

    assert sorted((one.fence, one.ours, one.renewed) for one in renewals) == [
        (stale.fence, False, False),
        (successor.fence, True, True),
    ]


async def test_an_ended_or_unknown_turn_renews_nothing(store: Store) -> None:
    await submit_one(store)
    turn = await claimed(store)
    await settle_one(store, turn)
    unknown = uuid4()

    renewals = await renewed(store.database, [(turn.id, turn.fence), (unknown, 1)], LEASE_SECONDS)

    assert {(one.id, one.ours, one.renewed) for one in renewals} == {
        (turn.id, False, False),
        (unknown, False, False),
    }


async def test_a_cancel_request_comes_back_with_the_renewal(store: Store) -> None:
    await submit_one(store)
    turn = await claimed(store)
    await cancel(store.database, "t", turn.id, CancelReason.SUPERSEDED)

    renewals = await renewed(store.database, [(turn.id, turn.fence)], LEASE_SECONDS)

    assert renewals == [Renewal(turn.id, turn.fence, True, True, True, "superseded")]


async def test_an_empty_renewal_says_the_time_and_has_something_to_commit(settings: Settings) -> None:
    """Its COMMIT hangs if every other one does: only so it proves that living workers can renew."""
    async with await psycopg.AsyncConnection.connect(settings.database_url) as connection:
        cursor = await connection.execute(RENEW, {"ids": [], "fences": [], "lease": LEASE_SECONDS})
        [(at, *nothing)] = await cursor.fetchall()
        [(transaction, now)] = await (
            await connection.execute("SELECT pg_current_xact_id_if_assigned(), clock_timestamp()")
        ).fetchall()

    assert (set(nothing), transaction is not None) == ({None, False}, True)
    assert timedelta(0) <= now - at < timedelta(minutes=1)
