"""Workers in a function: the relay runs elsewhere, and between two invocations there is no worker."""

from tests.e2e.harness import Product
from tests.runbooks.reader import Reader
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(reader: Reader, product: Product) -> None:
    await product.submit({"do": "echo"}, send=False)
    await product.fetch_nothing(
        "UPDATE turns SET created_at = now() - interval '1 h', queued_at = now() - interval '1 h'"
    )

    assert "relay.started" in (await reader.up_to("turnstile relay")).err
    assert "no-worker" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out
