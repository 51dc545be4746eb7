"""`ctx.once` of a plain handler may block: its function runs in a thread, as its handler does."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product


async def test_the_function_of_a_plain_handler_does_not_run_on_the_event_loop(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(TURNSTILE_HANDLER="tests.e2e.handlers:compute_in_thread")
    [turn] = await product.submit("go")

    await product.status_is(turn, "SUCCEEDED")

    assert await product.reply_of(turn) is False
