"""A deploy whose handler fails every turn; the version before it answers them."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.ops.commands.dead_turns import make_failed
from tests.runbooks.reader import Reader
from turnstile.statements.paused_queues import read_paused_queues


async def test_the_page(reader: Reader, product: Product, start_worker: StartWorker) -> None:
    await make_failed(product.database, product.settings, [f"s{number}" for number in range(12)])

    await reader.up_to("turnstile queues pause")
    assert "bad deploy" in (await read_paused_queues(product.database))[product.settings.queue].reason  # type: ignore[operator]
    await reader.up_to("terraform apply")
    start_worker()

    assert "ValueError" in (await reader.up_to("turnstile dlq list --groups")).out
    await reader.up_to("turnstile redrive")
    await product.ended()
    assert [row["status"] for row in await product.rows()] == ["SUCCEEDED"] * 12

    await reader.to_the_end()
