"""A deploy whose handler fails every turn; the version before it answers them."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.ops.dead_turns import make_failed
from tests.runbooks.reader import Reader
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.statements.paused_queues import read_paused_queues


async def test_the_page(reader: Reader, product: Product, start_worker: StartWorker) -> None:
    # Inputs that no version answers, older than the deploy.
    old = await make_failed(product.database, product.settings, ["bad"] * 2, error_class="Reject")
    sessions = [f"s{number}" for number in range(12)]
    deployed = await make_failed(product.database, product.settings, sessions, release="r8")

    await reader.up_to("turnstile queues pause")
    assert "bad deploy" in (await read_paused_queues(product.database))[product.settings.queue].reason  # type: ignore[operator]
    await reader.up_to("terraform apply")
    start_worker()

    assert "r8" in (await reader.up_to("turnstile stats --by release")).out
    assert "r8 12" in (await reader.up_to("turnstile dlq list --groups")).out
    await reader.up_to("turnstile redrive", CLASS="ValueError")
    for turn in deployed:
        await product.status_is(turn, "SUCCEEDED")
    assert {(await product.row(turn))["status"] for turn in old} == {"FAILED"}
    assert "dead-letters-waiting" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out

    await reader.to_the_end()
