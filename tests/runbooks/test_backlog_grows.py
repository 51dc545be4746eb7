"""A backlog that one small worker does not come to the end of."""

from collections.abc import Callable

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.runbooks.deployment import NAME, Deployment
from tests.runbooks.reader import Reader
from tests.support.probes import until
from turnstile.statements.paused_queues import pause_queue, read_paused_queues


async def test_the_page(
    reader: Reader, product: Product, start_worker: StartWorker, emulated: Callable[[], Deployment]
) -> None:
    start_worker(TURNSTILE_CONCURRENCY="1")
    for number in range(4):
        [turn] = await product.submit({"do": "sleep", "seconds": 60}, session=f"s{number}")
    await until(lambda: product.fetch("SELECT FROM workers WHERE busy = slots"))
    await pause_queue(product.database, product.settings.queue, paused_by="ada", reason="lunch")

    seen = await reader.up_to("turnstile queues list")
    assert "lunch" in seen.out
    assert " 1/1 " in (await reader.up_to("turnstile workers")).out
    await reader.up_to("turnstile queues resume")
    assert "All slots of its queue's workers are busy" in (await reader.up_to("turnstile why TURN", TURN=turn)).out
    await reader.up_to("turnstile why SESSION", SESSION="s3", TENANT="t")

    await reader.up_to("aws ecs update-service", QUEUE="turns")
    service = f"{NAME}-worker-turns"
    found = emulated().client("ecs").describe_services(cluster=NAME, services=[service])
    assert found["services"][0]["desiredCount"] == 20

    await reader.up_to("turnstile queues pause")
    assert [*await read_paused_queues(product.database)] == [product.settings.queue]
    await reader.up_to("turnstile queues resume")
    assert await read_paused_queues(product.database) == {}

    await product.fetch_nothing(
        "UPDATE turns SET created_at = created_at - interval '2 h' WHERE session_id IN ('s2', 's3')"
    )
    await reader.up_to("turnstile cancel --queue QUEUE --older-than 1h --dry-run")
    assert await product.rows("status = 'CANCELED'") == []
    await reader.up_to("turnstile cancel --queue QUEUE --older-than 1h")
    assert {row["session_id"] for row in await product.rows("status = 'CANCELED'")} == {"s2", "s3"}

    await reader.to_the_end()
