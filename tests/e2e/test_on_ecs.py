"""A worker in an ECS task: it says which task it is, and asks to be spared while it is at work."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.ecs_agent import TASK_ID, Agent, ecs_agent
from tests.support.probes import until


@pytest.fixture
def agent() -> Iterator[Agent]:
    """The agent beside the task."""
    with ecs_agent() as answering:
        yield answering


async def test_a_worker_with_a_turn_in_flight_is_protected(
    product: Product, start_worker: StartWorker, agent: Agent
) -> None:
    worker = start_worker(ECS_AGENT_URI=agent.uri)
    await until(lambda: worker.said("worker.started"))
    assert agent.wishes == []

    await product.submit({"do": "sleep", "seconds": 3})

    await until(lambda: agent.wishes)
    assert agent.wishes[0]["ProtectionEnabled"] is True


async def test_a_worker_whose_agent_is_away_answers_its_turns(product: Product, start_worker: StartWorker) -> None:
    away = "http://127.0.0.1:1/api/x"
    worker = start_worker(ECS_AGENT_URI=away, ECS_CONTAINER_METADATA_URI_V4=away)

    await product.submit({"do": "sleep", "seconds": 1.5})

    await product.all_in("SUCCEEDED")
    await until(lambda: worker.said("protection.refused"))
    assert len(worker.said("logs.no_task_id")) == 1


async def test_task_and_worker_stand_in_every_line_whichever_thread_writes_it(
    product: Product, start_worker: StartWorker, agent: Agent
) -> None:
    worker = start_worker(ECS_CONTAINER_METADATA_URI_V4=agent.uri)
    [turn] = await product.submit({"do": "sleep", "seconds": 30})
    await product.status_is(turn, "RUNNING")
    worker_id = (await product.row(turn))["worker_id"]
    # The heartbeat says so, from a thread of its own.
    await product.fetch_nothing(f"UPDATE turns SET fence = nextval('fence_seq') WHERE id = '{turn}'")
    await until(lambda: worker.said("heartbeat.superseded"))

    lines = worker.lines()
    begun = lines[lines.index(worker.said("worker.started")[0]) :]
    assert {line["task_id"] for line in lines} == {TASK_ID}
    assert {line["worker_id"] for line in begun} == {worker_id}


async def test_outside_ecs_no_task_is_named(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()
    await until(lambda: worker.said("worker.started"))

    assert all("task_id" not in line for line in worker.lines())
