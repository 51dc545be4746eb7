"""A worker in an ECS task: its log lines name the task, and it asks for protection while it has turns in flight."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.ecs_agent import TASK_ID, Agent, ecs_agent
from tests.support.probes import until


@pytest.fixture
def agent() -> Iterator[Agent]:
    """The agent of the task."""
    with ecs_agent() as answering:
        yield answering


async def test_a_worker_with_a_turn_in_flight_asks_for_protection(
    product: Product, start_worker: StartWorker, agent: Agent
) -> None:
    worker = start_worker(ECS_AGENT_URI=agent.uri)
    await until(lambda: worker.said("worker.started"))
    assert agent.wishes == []

    await product.submit({"do": "sleep", "seconds": 3})

    await until(lambda: agent.wishes)
    assert agent.wishes[0]["ProtectionEnabled"] is True


async def test_every_log_line_of_any_thread_names_the_task_and_the_worker(
    product: Product, start_worker: StartWorker, agent: Agent
) -> None:
    worker = start_worker(ECS_CONTAINER_METADATA_URI_V4=agent.uri)
    [turn] = await product.submit({"do": "sleep", "seconds": 30})
    await product.status_is(turn, "RUNNING")
    worker_id = (await product.row(turn))["worker_id"]
    # The heartbeat logs this on its own thread.
    await product.fetch_nothing(f"UPDATE turns SET fence = nextval('fence_seq') WHERE id = '{turn}'")
    await until(lambda: worker.said("heartbeat.superseded"))

    lines = worker.lines()
    begun = lines[lines.index(worker.said("worker.started")[0]) :]
    assert {line["task_id"] for line in lines} == {TASK_ID}
    assert {line["worker_id"] for line in begun} == {worker_id}
