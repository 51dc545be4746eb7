"""A cancel of a function that runs in a thread, and a scheduled turn."""

from datetime import UTC, datetime, timedelta

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.statements.cancel import cancel
from turnstile.turn.cancel_reason import CancelReason


async def test_a_function_in_a_thread_sees_its_cancellation(product: Product, start_worker: StartWorker) -> None:
    start_worker(TURNSTILE_HANDLER="tests.e2e.handlers:act_in_thread")
    [turn] = await product.submit("hello")
    await product.status_is(turn, "RUNNING")

    await cancel(product.database, "t", turn, CancelReason.USER)

    await product.status_is(turn, "CANCELED")
    await until(lambda: product.evidence("saw its cancellation"))


async def test_a_scheduled_turn_starts_when_it_is_due_and_delays_no_other_turn(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker()
    due = datetime.now(UTC) + timedelta(seconds=2)
    [scheduled] = await product.submit({"do": "echo"}, execute_at=due)
    [immediate] = await product.submit({"do": "echo"})

    await product.ended()

    [began] = [row for row in await product.evidence() if row["turn_id"] == scheduled]
    assert began["at"] >= due
    assert (await product.row(scheduled))["seq"] == 2
    assert (await product.row(immediate))["finished_at"] < began["at"]
