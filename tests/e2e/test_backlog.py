"""A relay process sends what is due, logs the backlog of every queue, and ends on SIGTERM."""

import signal

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until


async def test_a_relay_sends_what_is_due_logs_the_backlog_and_ends_with_0_on_sigterm(
    product: Product, start_worker: StartWorker
) -> None:
    await product.submit({"do": "echo"}, send=False)
    await product.fetch_nothing("UPDATE turns SET send_at = now()")

    process = start_worker("relay")

    await until(lambda: product.queues.count(product.settings.queue))
    await until(lambda: process.said("queue.backlog"))
    line = process.said("queue.backlog")[0]
    assert (line["queue"], line["due"], line["ready"], line["running"]) == (product.settings.queue, 1, 1, 0)
    process.signal(signal.SIGTERM)
    await until(lambda: process.exit_code is not None)
    assert process.exit_code == 0
