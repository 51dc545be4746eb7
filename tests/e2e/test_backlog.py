"""Whatever runs a relay tells the backlog of every queue in its log."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until


@pytest.mark.parametrize("command", ["worker", "relay"])
async def test_a_process_with_a_relay_tells_the_backlog(
    product: Product, start_worker: StartWorker, command: str
) -> None:
    await product.submit({"do": "echo"}, send=False)

    process = start_worker(command)

    await until(lambda: process.said("queue.backlog"))
    line = process.said("queue.backlog")[0]
    assert (line["queue"], line["due"], line["ready"], line["running"]) == (product.settings.queue, 1, 1, 0)


async def test_a_worker_without_a_relay_leaves_it_to_others(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(TURNSTILE_RELAY="false")
    await product.submit({"do": "echo"})
    await product.ended()

    assert worker.said("queue.backlog") == []
