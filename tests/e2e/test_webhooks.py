"""Completion webhooks in the processes that deliver them. What a try may reach is told by tests/relay/webhooks."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until

# A name that never resolves (RFC 2606): a try is all that can be seen, and all that is to be seen here.
NOWHERE = {
    "TURNSTILE_WEBHOOK_HOSTS": "*.example.invalid",
    "TURNSTILE_WEBHOOK_SECRETS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}
URL = "https://hooks.example.invalid/done?token=t0ken"


@pytest.mark.parametrize("command", ["worker", "relay"])
async def test_whoever_runs_the_relay_delivers_webhooks(
    product: Product, start_worker: StartWorker, command: str
) -> None:
    worker = start_worker(command, **NOWHERE)
    first, second = await product.submit({"do": "echo"}, {"do": "echo"}, webhook_url=URL)
    if command == "relay":
        await product.fetch_nothing(
            f"UPDATE turns SET status = 'CANCELED', finished_at = now(), send_at = NULL WHERE id IN ('{first}', '{second}')"
        )

    async def tried() -> bool:
        rows = await product.fetch("SELECT * FROM webhooks WHERE tries > 0 AND error = 'name not resolved'")
        return {row["turn_id"] for row in rows} == {first, second}

    await until(tried)
    await product.ended()
    assert worker.exit_code is None
    assert "t0ken" not in worker.log_path.read_text()


async def test_a_worker_that_may_send_none_leaves_them_owed(product: Product, start_worker: StartWorker) -> None:
    start_worker()

    await product.submit({"do": "echo"}, webhook_url=URL)

    await product.ended()
    [row] = await product.fetch("SELECT * FROM webhooks")
    assert (row["tries"], row["due_at"] is None) == (0, False)
