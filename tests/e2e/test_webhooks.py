"""Completion webhooks in a worker process. Which hosts it may reach: tests/relay/webhooks."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until

# A name that never resolves (RFC 2606): the test sees only the try.
NOWHERE = {
    "TURNSTILE_WEBHOOK_HOSTS": "*.example.invalid",
    "TURNSTILE_WEBHOOK_SECRETS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
}
URL = "https://hooks.example.invalid/done?token=t0ken"


async def test_a_worker_delivers_webhooks(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(**NOWHERE)
    first, second = await product.submit({"do": "echo"}, {"do": "echo"}, webhook_url=URL)

    async def tried() -> bool:
        rows = await product.fetch("SELECT * FROM webhooks WHERE tries > 0 AND error = 'name has no public address'")
        return {row["turn_id"] for row in rows} == {first, second}

    await until(tried)
    await product.ended()
    assert worker.exit_code is None
    assert "t0ken" not in worker.log_path.read_text()
