"""The slots of a worker by default settings (G20): one tenant alone has all of them, and beside others it leaves some free."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.e2e.test_tenant_cap import submit_of
from tests.probes import until

SLOTS = {"TURNSTILE_CONCURRENCY": "4"}


async def test_a_tenant_that_is_alone_has_all_slots(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(**SLOTS)
    for n in range(8):
        await submit_of(product, "loud", f"s{n}", 600)

    async def all_began() -> bool:
        return len(await product.evidence()) == 4

    await until(all_began)

    assert worker.said("session.put_off") == []


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_flood_keeps_nobody_waiting_who_comes_behind_it(product: Product, start_worker: StartWorker) -> None:
    start_worker(**SLOTS)
    for n in range(300):
        await submit_of(product, "loud", f"s{n}", 0.4)
    await until(product.evidence)

    quiet = [await submit_of(product, "quiet", f"s{n}", 0) for n in range(10)]

    for turn in quiet:
        await product.status_is(turn, "SUCCEEDED")
    waiting = await product.rows("tenant_id = 'loud' AND status = 'PENDING'")
    assert len(waiting) > 100


async def test_what_a_flood_had_to_wait_for_is_answered_when_there_is_room(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(**SLOTS)
    await submit_of(product, "quiet", "s", 0)
    for n in range(40):
        await submit_of(product, "loud", f"s{n}", 0.2)

    await until(lambda: worker.said("session.put_off"))
    await product.ended()
    await product.check_sessions()
