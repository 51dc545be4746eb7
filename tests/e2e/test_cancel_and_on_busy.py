"""A running handler hears of a cancel at once, and learns the reason."""

import asyncio

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
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
"""Heartbeats further apart than a test lasts: a handler can hear of a cancel only by its signal."""

LONG = {"do": "sleep", "seconds": 600}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The shortest visibility timeout that allows the rare heartbeat: on given queues the next test waits for its end."""
    queue = settings.queues[0].model_copy(update={"visibility_seconds": 90.0})
    return settings.model_copy(update={"queues": (queue,)})


async def text(product: Product, on_busy: OnBusy, content: object) -> None:
    """Submits as the API does: commit, then the cancel signal and the wake-up."""
    submission = make_submission(product.settings.queue, "s", content, on_busy=on_busy)
    texted = await submit_on_busy(product.database, submission, resend_seconds=product.settings.resend_seconds)
    hints = OwnCancelHints(product.settings)
    await hints.publish(texted.asked)
    await hints.close()
    if not isinstance(texted.answer, SessionBusyError) and texted.answer.wake:
        await product.send(("s", texted.answer.turn_id))


async def test_an_interrupt_cancels_the_running_and_the_waiting_turn_and_is_answered_next(
    product: Product, start_worker: StartWorker
) -> None:
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


async def test_without_redis_a_cancel_is_heard_with_the_next_heartbeat(
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
