"""The benchmark measures: in small, on the tests' own stack, and without a word about how fast anything is."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.contenders import FLOOR, OURS, Contender
from bench.drains import Work, drain
from bench.emulated_sqs import start_emulator
from bench.stage import Stage, open_stage
from ops.local.stack import LocalStack
from turns.envelope import OutgoingMessage
from turns.identifiers import uuid7
from turns.message import WakeUp
from turns.message_queue import MessageQueues
from turns.settings import Settings

TURNS = 60


@pytest.fixture
def stage(stack: LocalStack, tmp_path: Path) -> Iterator[Stage]:
    with open_stage(tmp_path, stack) as opened:
        yield opened


@pytest.mark.parametrize("contender", [OURS, FLOOR], ids=lambda contender: contender.name)
def test_a_drain_is_measured_to_its_end(stage: Stage, contender: Contender) -> None:
    found = drain(stage, contender, Work(count=TURNS))

    assert found["whole"]
    assert found["duplicates"] == 0
    assert 0 < found["turns"] <= TURNS
    assert found["turns_per_second"] > 0
    assert found["worker_cpu_ms"] > 0
    assert found["calls_per_1000"] > 0


async def test_the_products_own_client_works_on_the_emulator(settings: Settings, tmp_path: Path) -> None:
    with start_emulator(tmp_path / "log") as emulator:
        url, dlq_url = emulator.create_queue("q", 30), emulator.create_queue("q-dlq", 30)
        declared = settings.queues[0].model_copy(update={"sqs": url, "dlq": dlq_url})
        queues = MessageQueues(
            settings.model_copy(update={"queues": (declared,), "sqs_endpoint_url": emulator.address})
        )
        wake_up = WakeUp("t", "s", uuid7(0, 0))
        sent = await queues.send(declared.name, [OutgoingMessage(wake_up, "00-a-b-01")])
        [received] = await queues.receive(declared.name, 10)
        queues.extend(await queues.find(declared.name), [received])
        await queues.delete(declared.name, [received])
        left = await queues.count(declared.name)
        counts = emulator.counts("q")
        queues.close()

    assert len(sent) == 1
    assert received.body == wake_up.encode()
    assert received.trace_id == "a"
    assert left == 0
    assert counts.calls["ChangeMessageVisibilityBatch"] == 1
    assert counts.messages == {"sent": 1, "received": 1, "deleted": 1}
