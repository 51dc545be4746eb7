"""Workers in a function: the relay runs elsewhere, and between two invocations there is no worker."""

from collections.abc import Callable

from tests.e2e.harness import Product
from tests.runbooks.deployment import Deployment
from tests.runbooks.reader import Reader
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(reader: Reader, product: Product, emulated: Callable[[], Deployment]) -> None:
    assert "relay.started" in (await reader.up_to("turnstile relay")).err
    await reader.up_to("turnstile queues pause")
    await reader.up_to("turnstile queues resume")
    mapping = emulated().build_function("turnstile-answers")

    assert mapping in (await reader.up_to("aws lambda list", FUNCTION="turnstile-answers")).out
    await reader.up_to("aws lambda update-event-source-mapping", SOURCE=mapping)
    assert state_of(mapping, emulated()) in {"Disabling", "Disabled"}
    await reader.up_to("aws lambda update-event-source-mapping", SOURCE=mapping)
    assert state_of(mapping, emulated()) in {"Enabling", "Enabled"}

    await product.submit({"do": "echo"}, send=False)
    await product.fetch_nothing(
        "UPDATE turns SET created_at = now() - interval '1 h', queued_at = now() - interval '1 h'"
    )

    assert "no-worker" in (await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)).out


def state_of(mapping: str, deployment: Deployment) -> str:
    return str(deployment.client("lambda").get_event_source_mapping(UUID=mapping)["State"])
