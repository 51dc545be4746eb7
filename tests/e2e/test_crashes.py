"""Workers that die, sleep or hang: every turn still ends once, in order."""

import signal

import pytest

from tests.conftest import LEASE_SECONDS, sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings


# On a FIFO queue a message in flight holds up its group: with a visibility timeout as long as in production, the recovery
# must not wait for it.
@pytest.mark.parametrize(("fifo", "visibility_seconds"), [(False, 4.0), (True, 60.0)], ids=["standard", "fifo"])
async def test_a_killed_workers_turn_runs_again_within_lease_and_five_seconds(
    product: Product, start_worker: StartWorker, stack: Stack, queue: QueueSettings, fifo: bool
) -> None:
    sqs = sqs_client(stack)

    def in_flight() -> int:
        url = sqs.get_queue_url(QueueName=queue.sqs.rpartition("/")[2])["QueueUrl"]
        name = "ApproximateNumberOfMessagesNotVisible"
        return int(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name])

    victim = start_worker()
    [turn] = await product.submit({"do": "sleep", "seconds": 2})
    await until(product.evidence)
    start_worker()
    # It is deleted beside the handler, which may be quicker on a busy machine.
    await until(lambda: not fifo or not in_flight())

    victim.kill()
    [killed_at] = await product.fetch("SELECT clock_timestamp() AS at")

    async def begun_again() -> list[dict[str, object]]:
        return (await product.evidence())[1:]

    [again] = await until(begun_again)
    assert (again["at"] - killed_at["at"]).total_seconds() < LEASE_SECONDS + 5  # type: ignore[operator]
    await product.status_is(turn, "SUCCEEDED")
    row = await product.row(turn)
    assert (row["attempt"], row["crashes"]) == (2, 1)
    await product.check_sessions()


async def test_a_frozen_workers_late_result_is_refused(product: Product, start_worker: StartWorker) -> None:
    sleeper = start_worker()
    [turn] = await product.submit({"do": "sleep", "seconds": 1})
    await until(product.evidence)
    start_worker()

    sleeper.signal(signal.SIGSTOP)
    await product.status_is(turn, "SUCCEEDED")
    winner = await product.row(turn)
    sleeper.signal(signal.SIGCONT)

    await until(lambda: sleeper.said("turn.superseded"))
    assert await product.row(turn) == winner
    await product.check_sessions()


async def test_a_turn_that_kills_its_worker_ends_as_a_crash_loop(product: Product, start_worker: StartWorker) -> None:
    poison, next_turn = await product.submit({"do": "die"}, {"do": "echo"})
    for _ in range(3):
        worker = start_worker()
        before = len(await product.evidence())

        async def begun(before: int = before) -> bool:
            return len(await product.evidence()) > before

        await until(begun)
        await until(lambda worker=worker: worker.exit_code is not None)
    start_worker()

    await product.status_is(poison, "FAILED")
    await product.status_is(next_turn, "SUCCEEDED")
    row = await product.row(poison)
    assert (row["error_class"], row["crashes"], row["attempt"]) == ("crash_loop", 3, 3)

    async def dead_lettered() -> bool:
        return (await product.row(poison))["dead_lettered_at"] is not None

    await until(dead_lettered)
    await product.check_sessions()


async def test_a_handler_that_blocks_the_event_loop_keeps_its_lease(
    product: Product, start_worker: StartWorker
) -> None:
    start_worker()
    start_worker()

    [turn] = await product.submit({"do": "block", "seconds": 2 * LEASE_SECONDS})

    await product.status_is(turn, "SUCCEEDED")
    assert (await product.row(turn))["crashes"] == 0
    assert len(await product.evidence()) == 1


async def test_a_process_whose_loop_is_stuck_exits_and_its_turn_goes_on(
    product: Product, start_worker: StartWorker
) -> None:
    stuck = start_worker(TURNSTILE_WATCHDOG_SECONDS="1.5")
    [turn] = await product.submit({"do": "block", "seconds": 60})

    await until(lambda: stuck.exit_code is not None)

    assert stuck.exit_code == 70
    assert stuck.said("watchdog.loop_stuck")
    await product.fetch_nothing('UPDATE messages SET content = \'{"do": "echo"}\'')
    start_worker()
    await product.status_is(turn, "SUCCEEDED")


async def test_a_process_whose_loop_was_ended_exits_and_its_turn_goes_on(
    product: Product, start_worker: StartWorker
) -> None:
    ended = start_worker()
    [turn] = await product.submit({"do": "end the loop"})

    await until(lambda: ended.exit_code is not None)

    assert ended.exit_code == 1
    assert ended.said("worker.loop_ended")[0]["error_class"] == "SystemExit"
    await product.fetch_nothing('UPDATE messages SET content = \'{"do": "echo"}\'')
    start_worker()
    await product.status_is(turn, "SUCCEEDED")


async def test_a_handler_that_exits_below_its_own_task_fails_its_turn_only(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker()
    exits, after = await product.submit({"do": "exit in a task"}, {"do": "echo"})

    await product.status_is(after, "SUCCEEDED")

    row = await product.row(exits)
    assert (row["status"], row["error_class"], row["crashes"]) == ("FAILED", "HandlerExitedError", 0)
    assert worker.exit_code is None


async def test_a_handler_that_ignores_its_timeout_is_left_behind(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()

    deaf, after = await product.submit(
        {"do": "deaf", "seconds": 4}, {"do": "echo"}, timeout_seconds=0.5, max_attempts=1
    )

    await product.status_is(deaf, "FAILED")
    await product.status_is(after, "SUCCEEDED")
    assert (await product.row(deaf))["error_class"] == "timeout"
    assert worker.said("attempt.left_behind")
    await product.check_sessions()
