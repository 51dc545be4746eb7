"""Stopping and double texting with worker processes: a running handler hears of it at once, and is told why."""

import asyncio
import signal

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.factories import make_submission
from tests.support.probes import until
from tests.support.redis_hands import OwnCancelHints
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.errors import SessionBusyError
from turnstile.statements.cancel import cancel
from turnstile.statements.submit_on_busy import submit_on_busy
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.on_busy import OnBusy

RARE = {"TURNSTILE_HEARTBEAT_SECONDS": "45", "TURNSTILE_LEASE_SECONDS": "60", "TURNSTILE_WATCHDOG_SECONDS": "100"}
"""Whatever a handler hears of within this test, it has not heard by a heartbeat: a test waits for less long."""

LONG = {"do": "sleep", "seconds": 600}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """A visibility that the rare heartbeat nests in, and no more: on queues that are given, the next test waits for it to end."""
    queue = settings.queues[0].model_copy(update={"visibility_seconds": 90.0})
    return settings.model_copy(update={"queues": (queue,)})


async def text(product: Product, on_busy: OnBusy, content: object) -> None:
    """As the API does it: commit, then the hint and the wake-up."""
    submission = make_submission(product.settings.queue, "s", content, on_busy=on_busy)
    texted = await submit_on_busy(product.database, submission, net_seconds=product.settings.net_seconds)
    hints = OwnCancelHints(product.settings)
    await hints.publish(texted.asked)
    await hints.close()
    if not isinstance(texted.answer, SessionBusyError) and texted.answer.wake:
        await product.send(("s", texted.answer.turn_id))


async def test_a_running_handler_hears_of_its_cancel_without_a_heartbeat(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(**RARE)
    [turn] = await product.submit(LONG)
    await until(product.evidence)
    await until(lambda: worker.said("hints.listening"))
    hints = OwnCancelHints(product.settings)

    await cancel(product.database, "t", turn, CancelReason.USER)
    await hints.publish([turn])

    await product.status_is(turn, "CANCELED")
    await until(lambda: product.evidence("stopped: user"))
    await hints.close()


async def test_an_interrupt_stops_what_runs_and_is_answered_next(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(**RARE)
    [running, waiting] = await product.submit(LONG, {"do": "echo"})
    await until(product.evidence)
    await until(lambda: worker.said("hints.listening"))

    await text(product, OnBusy.INTERRUPT, {"do": "echo", "say": "instead"})

    await product.ended()
    await until(lambda: product.evidence("stopped: superseded"))
    rows = {row["seq"]: (row["status"], row["cancel_reason"]) for row in await product.rows()}
    assert rows == {1: ("CANCELED", "superseded"), 2: ("CANCELED", "superseded"), 3: ("SUCCEEDED", None)}
    assert running != waiting
    await product.check_sessions()


async def test_a_merged_input_is_given_to_the_handler_with_the_one_before(
    product: Product, start_worker: StartWorker
) -> None:
    [turn] = await product.submit("one", send=False)
    await text(product, OnBusy.MERGE, "two")
    await product.send(("s", turn))
    start_worker()

    await product.ended()

    [reply] = await product.fetch("SELECT content FROM messages WHERE role = 'assistant'")
    assert reply["content"] == "one\ntwo"


async def test_with_redis_away_a_cancel_is_heard_with_the_next_heartbeat(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    start_worker()
    [turn] = await product.submit(LONG)
    await until(product.evidence)
    await asyncio.to_thread(stack.redis.stop)
    try:
        hints = OwnCancelHints(product.settings)
        await cancel(product.database, "t", turn, CancelReason.USER)
        await hints.publish([turn])
        await hints.close()

        await product.status_is(turn, "CANCELED")
    finally:
        await asyncio.to_thread(stack.redis.start)


async def test_a_timeout_and_a_shutdown_are_told_apart(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker(TURNSTILE_GRACE_SECONDS="0")
    await product.submit(LONG, session="slow", timeout_seconds=3.0, max_attempts=1)
    await until(lambda: product.evidence("stopped: timeout"))
    [turn] = await product.submit(LONG, session="shut")
    await product.status_is(turn, "RUNNING")

    async def began() -> bool:
        return len(await product.evidence()) == 2

    await until(began)

    worker.signal(signal.SIGTERM)

    stopped = await until(lambda: worker.said("handler.cancelled")[1:])
    assert [line["reason"] for line in stopped] == ["shutdown"]
    assert (await product.row(turn))["cancel_reason"] is None


async def test_what_an_interrupted_turn_had_said_is_kept_beside_the_history(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(**RARE)
    [speaking] = await product.submit({"do": "speak", "words": ["Well, ", "let me ", "think"], "hang_in_attempt": 1})
    await until(product.evidence)
    await until(lambda: worker.said("hints.listening"))

    await text(product, OnBusy.INTERRUPT, {"do": "history"})

    await product.ended()
    kept = await product.database.fetch(
        "SELECT turn_id, kind, content FROM messages WHERE role = 'assistant' ORDER BY kind", {}
    )
    assert {"turn_id": speaking, "kind": "partial", "content": "Well, let me "} in kept
    [answer] = [message["content"] for message in kept if message["kind"] == "message"]
    assert "Well, let me " not in str(answer)
