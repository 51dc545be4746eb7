"""A process with a relay logs the backlog of every queue."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until


async def test_a_process_with_a_relay_logs_the_backlog(product: Product, start_worker: StartWorker) -> None:
    await product.submit({"do": "echo"}, send=False)

    process = start_worker("relay")

    await until(lambda: process.said("queue.backlog"))
    line = process.said("queue.backlog")[0]
    assert (line["queue"], line["due"], line["ready"], line["running"]) == (product.settings.queue, 1, 1, 0)
