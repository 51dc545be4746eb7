"""A primary of a Redis cluster is killed under load, and its replica takes over. Sentinels: tests/backends/redis."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.fleet.fleets import Fleet, cluster
from tests.support.fleet.servers import program_of
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import Guard

SESSIONS = [f"s{number}" for number in range(4)]


@pytest.fixture
def fleet(stack: Stack) -> Iterator[Fleet]:
    with cluster(program_of(stack), replicas=1) as running:
        yield running


@pytest.fixture
def visibility_seconds() -> float:
    """Twice the lease."""
    return 12.0


@pytest.fixture
def settings(settings: Settings, fleet: Fleet) -> Settings:
    """With the cluster in place of the stack's Redis."""
    return settings.model_copy(update={"redis_url": fleet.url, "lease_seconds": 6.0})


async def test_turns_are_answered_once_and_in_order_while_the_primary_is_failed_over(
    product: Product, start_worker: StartWorker, fleet: Fleet
) -> None:
    workers = [start_worker(), start_worker()]
    for session in SESSIONS:
        await product.submit(*[{"do": "sleep", "seconds": 0.1}] * 2, session=session)
    await until(product.evidence, within=60)

    fleet.primaries[0].kill()

    async def failed_over_under_load() -> bool:
        for session in SESSIONS:
            await product.submit({"do": "sleep", "seconds": 0.1}, session=session)
        await product.ended(within=90)
        return fleet.has_failed_over()

    await until(failed_over_under_load, within=90)

    async def all_locked_again() -> bool:
        known = [len(worker.said("session.lock")) for worker in workers]
        for session in SESSIONS:
            await product.submit({"do": "echo"}, session=session)
        await product.ended(within=90)
        lines = [line for worker, old in zip(workers, known, strict=True) for line in worker.said("session.lock")[old:]]
        return {line["result"] for line in lines} == {Guard.LOCKED}

    await until(all_locked_again, within=90)

    rows = await product.rows()
    assert {row["status"] for row in rows} == {"SUCCEEDED"}
    assert len(await product.evidence()) == len(rows)
    await product.check_sessions()
