"""A backlog that one small worker does not come to the end of."""

from collections.abc import Callable

import psycopg
import pytest

from tests.e2e.conftest import EVIDENCE, StartWorker
from tests.e2e.harness import Product
from tests.runbooks.deployment import NAME, Deployment
from tests.runbooks.reader import Reader
from tests.support.database_roles import RoleUrls
from tests.support.outside import outside
from tests.support.probes import until
from tests.support.tampered_turns import make_pending
from turnstile.statements.paused_queues import pause_queue, read_paused_queues


@pytest.fixture
def evidence(roles: RoleUrls) -> None:
    """The page has SQL, so the application's role can't make the table of the test's handler."""
    with psycopg.connect(outside(roles.owner), autocommit=True) as connection:
        connection.execute(EVIDENCE)


async def test_the_page(
    reader: Reader, product: Product, start_worker: StartWorker, emulated: Callable[[], Deployment]
) -> None:
    start_worker(TURNSTILE_CONCURRENCY="1")
    for number in range(4):
        # For longer than the page may take on a busy machine.
        [turn] = await product.submit({"do": "sleep", "seconds": 600}, session=f"s{number}")
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

    for number in range(3):
        await make_pending(product.database, product.settings, f"f{number}", tenant_id="flood")
    await product.fetch_nothing("UPDATE turns SET send_at = now() + interval '1 h' WHERE status = 'PENDING'")
    by_tenant = (await reader.up_to("turnstile stats --by tenant")).out.splitlines()
    assert ["flood", "3", "0"] in [line.split()[:3] for line in by_tenant]
    await reader.up_to("turnstile cancel --queue QUEUE --tenant TENANT --status pending --dry-run", TENANT="flood")
    assert await product.rows("tenant_id = 'flood' AND status = 'CANCELED'") == []
    await reader.up_to("turnstile cancel --queue QUEUE --tenant TENANT", TENANT="flood")
    assert len(await product.rows("tenant_id = 'flood' AND status = 'CANCELED'")) == 3
    url = emulated().client("sqs").create_queue(QueueName="flooded")["QueueUrl"]
    await reader.up_to("aws sqs purge-queue", QUEUE_URL=url)
    assert await product.rows("send_at > now() + interval '30 min'") != []
    await reader.up_to("-- in psql")
    assert await product.rows("send_at > now() + interval '30 min'") == []

    await reader.to_the_end()
