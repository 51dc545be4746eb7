"""A queue with `on_failure = "halt"`: a FAILED turn halts its session until an operator decides (G9)."""

import secrets
from uuid import UUID

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.ops.sessions.halted_session import Resumed, retry
from turnstile.turn.identifiers import start_trace


@pytest.fixture
def settings(settings: Settings, queue: QueueSettings) -> Settings:
    """The test's queue halts."""
    return settings.model_copy(update={"queues": (queue.model_copy(update={"on_failure": "halt"}),)})


async def retry_turn(product: Product, turn_id: UUID) -> Resumed | None:
    trace = start_trace(secrets.randbits(192))
    return await retry(product.database, turn_id, trace, expires_in_seconds=60, requested_by="test")


async def test_a_failed_turn_halts_its_session_until_it_is_retried(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()
    first, second = await product.submit({"do": "bug"}, {"do": "echo"})
    await product.submit({"do": "echo"}, session="other")
    await product.status_is(first, "FAILED")
    (late,) = await product.submit({"do": "echo"})
    await until(lambda: worker.said("turn.halted_session"))

    async def its_message_was_read() -> bool:
        idle = [line for line in worker.said("session.idle") if line["session_id"] == "s"]
        return bool(idle) and await product.queues.count(product.settings.queue) == 0

    await until(its_message_was_read)
    assert [(await product.row(turn))["status"] for turn in (second, late)] == ["PENDING", "PENDING"]
    assert await product.queues.count(product.settings.queue, dead=True) == 0
    [line] = worker.said("turn.halted_session")
    assert (line["level"], line["turn_id"], line["error_class"]) == ("error", str(first), "ValueError")

    await product.fetch_nothing(f"UPDATE messages SET content = '{{\"do\": \"echo\"}}' WHERE turn_id = '{first}'")
    assert await retry_turn(product, first)

    await product.all_in("SUCCEEDED")
    began = [row["turn_id"] for row in await product.evidence() if row["session_id"] == "s"]
    assert began == [first, first, second, late]
    await product.check_sessions()
