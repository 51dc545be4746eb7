"""A worker that starts while Redis is away: it says so, and works."""

from tests.e2e.conftest import StartWorker
from tests.support.probes import until


async def test_it_says_at_its_start_what_it_goes_without(start_worker: StartWorker) -> None:
    process = start_worker(REDIS_URL="redis://127.0.0.1:1/0")

    await until(lambda: process.said("worker.started"))

    assert [line["level"] for line in process.said("worker.without_redis")] == ["warning"]
