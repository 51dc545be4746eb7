"""Limits of the fleet: two workers together keep them, and a killed worker's places come free with its leases."""

import json

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until

PLACES = 2
LIMITED = {
    "TURNSTILE_CONCURRENCY": "8",
    "TURNSTILE_LIMITS": json.dumps([{"name": "models", "key": "metadata.model", "concurrency": PLACES}]),
}
LARGE = {"model": "large"}

# How many attempts were under way at a time. A lost attempt has no end: nobody knows when its worker died.
MOST_AT_A_TIME = """
WITH changes AS (
    SELECT started_at AS at, 1 AS change FROM turn_attempts WHERE outcome <> 'lost'
    UNION ALL SELECT finished_at, -1 FROM turn_attempts WHERE outcome <> 'lost'
)
SELECT max(at_a_time)::int AS most, count(*)::int / 2 AS attempts
  FROM (SELECT sum(change) OVER (ORDER BY at, change) AS at_a_time FROM changes) c
"""


async def submit_apart(product: Product, many: int, seconds: float) -> None:
    for number in range(many):
        order = {"do": "sleep", "seconds": seconds}
        await product.submit(order, session=f"s-{number}", metadata=LARGE)


async def all_are_done(product: Product) -> bool:
    return not await product.rows("status <> 'SUCCEEDED'")


async def test_two_workers_together_run_as_many_turns_as_there_are_places(
    product: Product, start_worker: StartWorker
) -> None:
    await submit_apart(product, 12, 0.2)
    await product.submit(*[{"do": "sleep", "seconds": 0.1}] * 4, session="long", metadata=LARGE)
    for _ in range(2):
        start_worker(**LIMITED)

    await until(lambda: all_are_done(product), within=120)

    [found] = await product.fetch(MOST_AT_A_TIME)
    assert found == {"most": PLACES, "attempts": 16}
    order = [row["seq"] for row in await product.evidence() if row["session_id"] == "long"]
    assert order == sorted(order)


async def test_the_places_of_a_killed_worker_come_free(product: Product, start_worker: StartWorker) -> None:
    victim = start_worker(**LIMITED)
    await submit_apart(product, PLACES, 3600.0)
    await until(product.evidence)
    victim.kill()
    await product.fetch("UPDATE messages SET content = '{\"do\": \"echo\"}' WHERE role = 'user' RETURNING turn_id")
    start_worker(**LIMITED)

    await until(lambda: all_are_done(product), within=120)
