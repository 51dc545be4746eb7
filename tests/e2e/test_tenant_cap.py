"""The cap of a tenant with a worker process (G20): its flood leaves slots to the others, and none of it is lost."""

import asyncio

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product, submit_of
from tests.support.probes import until

SLOTS = {"TURNSTILE_CONCURRENCY": "3", "TURNSTILE_TENANT_SLOTS": "2"}


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_tenants_flood_leaves_a_slot_to_another(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(**SLOTS)
    flood = [await submit_of(product, "loud", f"s{n}", 600) for n in range(6)]

    async def two_began() -> bool:
        return len(await product.evidence()) == 2

    await until(two_began)
    await until(lambda: worker.said("session.deferred"))

    quiet = await submit_of(product, "quiet", "s", 0)

    await product.status_is(quiet, "SUCCEEDED")
    running = await product.rows("status = 'RUNNING'")
    assert len(running) == 2
    assert {row["id"] for row in running} <= set(flood)


async def test_no_more_of_a_tenant_are_answered_at_once_than_its_cap(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(**SLOTS | {"TURNSTILE_TENANT_SLOTS": "1"})

    await asyncio.gather(*(submit_of(product, "loud", f"s{n}", 0.3) for n in range(8)))

    await product.ended()
    began, ended = await product.evidence("began"), await product.evidence("ended")
    times = sorted([(row["at"], 1) for row in began] + [(row["at"], -1) for row in ended])
    at_once = [sum(change for _, change in times[: n + 1]) for n in range(len(times))]
    assert max(at_once) == 1
    await product.check_sessions()


async def test_what_a_killed_worker_had_put_off_is_answered_by_the_next(
    product: Product, start_worker: StartWorker
) -> None:
    first = start_worker(**SLOTS | {"TURNSTILE_TENANT_SLOTS": "1"})
    await submit_of(product, "loud", "a", 600)
    await until(product.evidence)
    defer = await submit_of(product, "loud", "b", 0)
    await until(lambda: first.said("session.deferred"))

    first.kill()
    start_worker()

    await product.status_is(defer, "SUCCEEDED")
