"""What a handler's module or a handler does to the event loop as if it were its own."""

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until

HANDLER = "tests.e2e.loop_handlers:act"


async def test_a_handler_whose_module_has_set_an_event_loop_policy_starts_programs(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker(TURNSTILE_HANDLER=HANDLER)
    [turn] = await product.submit("run a program")

    await product.status_is(turn, "SUCCEEDED")

    assert await product.reply_of(turn) == 0


async def test_a_handler_that_stops_the_loop_is_named_and_its_worker_goes_on(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_HANDLER=HANDLER)
    [turn] = await product.submit("stop the loop")

    await product.status_is(turn, "SUCCEEDED")

    [refused] = worker.said("worker.stop_refused")
    assert (refused["level"], refused["turn_id"]) == ("warning", str(turn))
    assert "loop_handlers.py" in refused["where"]


async def test_a_worker_all_of_whose_tasks_are_cancelled_names_its_turns_and_ends(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_HANDLER=HANDLER)
    [waiting] = await product.submit("wait", session="a")
    await product.status_is(waiting, "RUNNING")
    [turn] = await product.submit("cancel all tasks", session="b")

    await until(lambda: worker.exit_code is not None)

    assert worker.exit_code == 1
    assert {line["turn_id"] for line in worker.said("consumer.cancelled")} == {str(waiting), str(turn)}
    assert worker.said("worker.cancelled")
    assert "Traceback" not in worker.log_path.read_text()
