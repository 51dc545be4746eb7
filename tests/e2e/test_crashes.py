"""Workers that are killed, frozen or stuck: every turn still ends once, in order."""

import signal

import pytest

from tests.conftest import LEASE_SECONDS, sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings


# On a FIFO queue a message in flight blocks its group. The visibility timeout is as long as in production.
@pytest.mark.parametrize(("fifo", "visibility_seconds"), [(True, 60.0)], ids=["fifo"])
async def test_on_a_fifo_queue_recovery_does_not_wait_for_the_visibility_timeout(
    product: Product, start_worker: StartWorker, stack: Stack, queue: QueueSettings
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
    # The message is deleted while the handler runs.
    await until(lambda: not in_flight())

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


async def test_the_late_result_of_a_frozen_worker_is_refused(product: Product, start_worker: StartWorker) -> None:
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


async def test_a_process_whose_event_loop_is_stuck_exits_and_its_turn_runs_again(
    product: Product, start_worker: StartWorker
) -> None:
    stuck = start_worker(TURNSTILE_WATCHDOG_SECONDS="1.5")
    [turn] = await product.submit({"do": "block", "seconds": 60})

    await until(lambda: stuck.exit_code is not None)

    assert stuck.exit_code == 70
    assert stuck.said("watchdog.loop_stuck")
    [blocked] = stuck.said("worker.loop_blocked")
    assert (blocked["level"], blocked["turn_id"]) == ("warning", str(turn))
    assert "handlers.py" in blocked["stack"].splitlines()[-2]
    await product.fetch_nothing('UPDATE messages SET content = \'{"do": "echo"}\'')
    start_worker()
    await product.status_is(turn, "SUCCEEDED")
