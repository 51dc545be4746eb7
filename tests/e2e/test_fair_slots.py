"""Fair shares of the slots (G20): the flood of one tenant does not delay another."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.statements.submit import submit
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp

SLOTS = {"TURNSTILE_CONCURRENCY": "4"}


async def submit_many(product: Product, tenant: str, many: int, seconds: float) -> None:
    """Submits `many` turns of `seconds` each, each in its own session, and sends their wake-ups."""
    content = {"do": "sleep", "seconds": seconds}
    queue = product.settings.queue
    wanted = [make_submission(queue, f"{tenant}-{n}", content, tenant_id=tenant) for n in range(many)]
    await submit(product.database, wanted, resend_seconds=product.settings.resend_seconds)
    wake_ups = [WakeUp(tenant, one.session_id, one.turn_id) for one in wanted]
    await product.queues.send(queue, [OutgoingMessage(wake_up, "") for wake_up in wake_ups])


async def test_a_tenant_is_answered_long_before_the_flood_of_another(
    product: Product, start_worker: StartWorker
) -> None:
    await submit_many(product, "loud", 50, 0.5)
    start_worker(**SLOTS)
    await until(product.evidence)

    await submit_many(product, "quiet", 3, 0.0)

    async def quiet_is_done() -> bool:
        return not await product.rows("tenant_id = 'quiet' AND status <> 'SUCCEEDED'")

    await until(quiet_is_done, within=120)
    waited = await product.rows(
        "tenant_id = 'loud' AND coalesce(finished_at, 'infinity') >"
        " (SELECT max(finished_at) FROM turns WHERE tenant_id = 'quiet')"
    )
    assert len(waited) > 25
