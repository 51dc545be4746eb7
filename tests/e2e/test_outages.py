"""Outages of Redis, SQS and Postgres: turns go on or wait, and none is lost."""

import asyncio

import pytest
import redis

from tests.conftest import LEASE_SECONDS, sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A lost wake-up is sent again soon."""
    return settings.model_copy(update={"resend_seconds": 2.0})


async def test_turns_go_on_while_redis_is_stopped(product: Product, start_worker: StartWorker, stack: Stack) -> None:
    start_worker()
    start_worker()
    await product.submit(*[{"do": "echo"}] * 3, session="before")
    await product.ended()

    await asyncio.to_thread(stack.redis.stop)
    try:
        [stopped] = await product.fetch("SELECT clock_timestamp() AS at")

        async def several_leases_later() -> bool:
            for n in range(4):
                await product.submit(*[{"do": "sleep", "seconds": 0.05}] * 2, session=f"s{n}")
            await product.ended(within=60)
            [now] = await product.fetch("SELECT clock_timestamp() AS at")
            return bool((now["at"] - stopped["at"]).total_seconds() > 2 * LEASE_SECONDS)

        await until(several_leases_later)
    finally:
        await asyncio.to_thread(stack.redis.start)

    assert {row["status"] for row in await product.rows()} == {"SUCCEEDED"}
    assert len(await product.evidence()) == len(await product.rows())
    await product.check_sessions()


async def test_a_flush_of_redis_loses_no_turn(product: Product, start_worker: StartWorker, stack: Stack) -> None:
    start_worker()
    start_worker()
    await product.submit(*[{"do": "sleep", "seconds": 0.2}] * 6)
    client = redis.Redis.from_url(stack.redis.url)

    for count in (1, 3, 5):

        async def begun(count: int = count) -> bool:
            return len(await product.evidence()) >= count

        await until(begun)
        client.flushall()
        await product.submit({"do": "echo"})

    await product.ended()
    assert {row["status"] for row in await product.rows()} == {"SUCCEEDED"}
    await product.check_sessions()
    client.close()


async def test_every_turn_ends_although_the_queue_was_purged(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    for n in range(10):
        await product.submit({"do": "echo"}, session=f"s{n}")
    url = (await product.queues.find(product.settings.queue)).url
    sqs_client(stack).purge_queue(QueueUrl=url)

    start_worker()

    await product.ended(within=60)
    assert {row["status"] for row in await product.rows()} == {"SUCCEEDED"}


async def test_a_crash_of_postgres_loses_no_turn(product: Product, start_worker: StartWorker, stack: Stack) -> None:
    start_worker()
    start_worker()
    for n in range(6):
        await product.submit(*[{"do": "sleep", "seconds": 0.3}] * 3, session=f"s{n}")
    await until(product.evidence)

    await asyncio.to_thread(stack.postgres.restart, immediate=True)

    await until(lambda: _answers(product))
    await product.ended(within=60)
    assert {row["status"] for row in await product.rows()} == {"SUCCEEDED"}
    await product.check_sessions()


async def _answers(product: Product) -> bool:
    try:
        await product.rows("false")
    except Exception:
        return False
    return True


async def test_turns_wait_while_sqs_is_away(product: Product, start_worker: StartWorker, stack: Stack) -> None:
    worker = start_worker()
    await product.submit({"do": "echo"}, session="before")
    await product.ended()

    await asyncio.to_thread(stack.sqs.stop)
    try:
        [turn] = await product.submit({"do": "echo"}, session="during", send=False)
        await until(lambda: worker.said("consumer.receive_failed"))
    finally:
        await asyncio.to_thread(stack.sqs.start)
        # This emulator forgets its queues when it stops; AWS does not.
        declared = product.settings.find_queue(product.settings.queue)
        for name in (declared.sqs, declared.dlq):
            sqs_client(stack).create_queue(QueueName=name)

    await product.status_is(turn, "SUCCEEDED", within=60)
