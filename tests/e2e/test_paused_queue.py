"""An operator pauses a queue: running turns end, no turn begins, and after the resume all are answered (M3)."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.statements.paused_queues import pause_queue, resume_queue


async def test_no_turn_begins_while_the_queue_is_paused(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()
    running, following = await product.submit({"do": "sleep", "seconds": 2}, {"do": "echo"}, session="one")
    await until(product.evidence)

    await pause_queue(product.database, product.settings.queue, paused_by="ada", reason=None)
    await until(lambda: worker.said("worker.paused"))
    [other] = await product.submit({"do": "echo"}, session="two")
    await product.status_is(running, "SUCCEEDED")

    assert [(await product.row(turn))["status"] for turn in (following, other)] == ["PENDING", "PENDING"]
    await resume_queue(product.database, product.settings.queue, resumed_by="ada")
    await product.all_in("SUCCEEDED")


async def test_a_worker_that_starts_on_a_paused_queue_begins_no_turn(
    product: Product, start_worker: StartWorker
) -> None:
    await pause_queue(product.database, product.settings.queue, paused_by="ada", reason="a bad deploy")
    turns = await product.submit({"do": "echo"}, {"do": "echo"})

    worker = start_worker()
    await until(lambda: worker.said("worker.paused"))

    assert await product.evidence() == []
    assert [(await product.row(turn))["attempt"] for turn in turns] == [0, 0]
    await resume_queue(product.database, product.settings.queue, resumed_by="ada")
    await product.all_in("SUCCEEDED")
