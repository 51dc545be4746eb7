"""The slots of a worker by default settings (G20): one tenant alone has all of them, and beside others it leaves some free."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product, submit_of
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.statements.submit import submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.message import WakeUp

SLOTS = {"TURNSTILE_CONCURRENCY": "4"}


async def test_a_tenant_that_is_alone_has_all_slots(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(**SLOTS)
    for n in range(8):
        await submit_of(product, "loud", f"s{n}", 600)

    async def all_began() -> bool:
        return len(await product.evidence()) == 4

    await until(all_began)

    assert worker.said("session.deferred") == []


async def submit_many(product: Product, tenant: str, many: int, seconds: float) -> None:
    """Turns that take so long, each in a session of its own, and their wake-ups; all in one statement."""
    content = {"do": "sleep", "seconds": seconds}
    queue = product.settings.queue
    wanted = [make_submission(queue, f"{tenant}-{n}", content, tenant_id=tenant) for n in range(many)]
    await submit(product.database, wanted, net_seconds=product.settings.net_seconds)
    wake_ups = [WakeUp(tenant, one.session_id, one.turn_id) for one in wanted]
    await product.queues.send(queue, [OutgoingMessage(wake_up, "") for wake_up in wake_ups])


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_flood_keeps_nobody_waiting_who_comes_behind_it(product: Product, start_worker: StartWorker) -> None:
    await submit_many(product, "loud", 200, 1.0)
    start_worker(**SLOTS)
    await until(product.evidence)

    await submit_many(product, "quiet", 5, 0.0)

    async def quiet_is_done() -> bool:
        return not await product.rows("tenant_id = 'quiet' AND status <> 'SUCCEEDED'")

    await until(quiet_is_done, within=120)
    waited = await product.rows(
        "tenant_id = 'loud' AND coalesce(finished_at, 'infinity') >"
        " (SELECT max(finished_at) FROM turns WHERE tenant_id = 'quiet')"
    )
    assert len(waited) > 100


async def test_what_a_flood_had_to_wait_for_is_answered_when_there_is_room(
    product: Product, start_worker: StartWorker
) -> None:
    await submit_many(product, "quiet", 1, 0.0)
    await submit_many(product, "loud", 40, 0.2)

    worker = start_worker(**SLOTS)

    await until(lambda: worker.said("session.deferred"))
    await product.ended(within=120)
    await product.check_sessions()
