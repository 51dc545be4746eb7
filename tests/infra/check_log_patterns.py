"""The alarms count what the product writes: its real log lines, judged by the patterns that Terraform put into CloudWatch."""

import asyncio
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product, WorkerProcess
from tests.infra.emulator import client
from tests.infra.log_pattern import matches
from tests.support.given_queues import GivenQueues
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings


def counted(given: GivenQueues, worker: WorkerProcess) -> Counter[str]:
    """How many of a worker's lines each metric counts. Every line of its log, also what is not JSON."""
    patterns = given.terraform["log_patterns"]
    lines = worker.log_path.read_text(errors="replace").splitlines()
    return Counter(metric for line in lines for metric, pattern in patterns.items() if matches(pattern, line))


def test_the_filters_are_in_place_for_each_queue(given: GivenQueues) -> None:
    logs = client("logs", given.tests)

    for queue in ("turns", "strict"):
        found = logs.describe_metric_filters(logGroupName=f"/turnstile/check-worker-{queue}")["metricFilters"]
        patterns = {one["metricTransformations"][0]["metricName"]: one["filterPattern"] for one in found}
        assert "relay.step_failed" in patterns.pop("relay_step_failed"), "of a relay in the same log group"
        assert patterns == {f"{queue}.{metric}": pattern for metric, pattern in given.terraform["log_patterns"].items()}


async def test_a_turn_that_finally_fails_counts_once_and_its_retries_do_not(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker()

    failing, _ = await product.submit({"do": "fail"}, {"do": "flaky", "times": 2}, max_attempts=3)
    await product.ended()

    await until(lambda: worker.said("turn.succeeded"))
    assert (await product.row(failing))["status"] == "FAILED"
    assert len(worker.said("turn.retried")) >= 4
    assert counted(given, worker)["turn_failed"] == 1
    assert counted(given, worker)["session_halted"] == 0


async def test_a_turn_counts_once_for_its_end_and_once_for_how_long_it_waited(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker()

    await product.submit({"do": "echo"}, {"do": "flaky", "times": 1}, max_attempts=3)
    await product.ended()

    await until(lambda: counted(given, worker)["turn_succeeded"] == 2)
    pattern = given.terraform["log_patterns"]["waited_seconds"]
    begun = [line for line in worker.lines() if matches(pattern, line)]
    assert [line["waited_seconds"] >= 0 for line in begun] == [True, True]
    assert len(worker.said("turn.claimed")) == 3, "a later attempt has no such number"


async def test_a_turn_that_kills_its_workers_counts_once(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    workers = [start_worker() for _ in range(3)]
    [turn] = await product.submit({"do": "die"})

    await until(lambda: all(worker.exit_code is not None for worker in workers), within=60)
    last = start_worker()
    await product.status_is(turn, "FAILED", within=60)

    await until(lambda: counted(given, last)["turn_failed"] == 1)
    assert sum(counted(given, worker)["turn_failed"] for worker in workers) == 0


async def test_a_relay_reports_the_backlog_of_each_queue_in_the_fields_that_the_filter_reads(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker("relay")
    queue = product.settings.queue
    pattern = given.terraform["backlog_patterns"][queue]

    await until(lambda: worker.said("queue.backlog"))

    lines = [line for line in worker.lines() if matches(pattern, line)]
    assert lines == [line for line in worker.said("queue.backlog") if line["queue"] == queue]
    assert all(line[name] >= 0 for line in lines for name in ("due", "ready", "running", "oldest_seconds", "paused"))


async def test_a_relay_reports_what_waits_for_a_person_in_the_fields_that_the_filter_reads(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker("relay")
    queue = product.settings.queue
    pattern = given.terraform["attention_patterns"][queue]

    await until(lambda: worker.said("queue.attention"))

    lines = [line for line in worker.lines() if matches(pattern, line)]
    assert lines == [line for line in worker.said("queue.attention") if line["queue"] == queue]
    read = ("failed_lately", "halted_lately", "halted_seconds", "letters", "untouched_seconds")
    assert all(line[name] >= 0 for line in lines for name in read)


async def test_a_relay_reports_how_many_workers_are_unwell_in_the_field_that_the_filter_reads(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    relay = start_worker("relay")
    pattern = given.terraform["workers_patterns"][product.settings.queue]

    [line, *_] = await until(lambda: [line for line in relay.lines() if matches(pattern, line)])

    assert line["unwell"] == 0


async def test_a_lost_worker_is_counted_once_by_the_relay_that_finds_it(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    victim, relay = start_worker(TURNSTILE_RELAY="false"), start_worker("relay")
    await product.submit({"do": "sleep", "seconds": 60})
    await until(product.evidence)

    victim.kill()

    pattern = given.terraform["lost_patterns"][product.settings.queue]
    [lost] = await until(lambda: [line for line in relay.lines() if matches(pattern, line)])
    assert (lost["level"], lost["turns"]) == ("warning", 1)


async def test_a_blocked_event_loop_is_counted(given: GivenQueues, product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()

    await product.submit({"do": "block", "seconds": 2})

    await until(lambda: counted(given, worker)["loop_blocked"] == 1)


async def test_a_malformed_message_is_counted(
    given: GivenQueues, product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    worker = start_worker()
    address = await product.queues.find(product.settings.queue)

    sqs_client(stack).send_message(QueueUrl=address.url, MessageBody="nobody understands this")

    await until(lambda: counted(given, worker)["message_malformed"])
    assert counted(given, worker)["turn_failed"] == 0


class TestOnAHaltingQueue:
    """Where a failed turn halts its session."""

    @pytest.fixture
    def settings(self, settings: Settings, queue: QueueSettings) -> Settings:
        """The test's queue halts."""
        return settings.model_copy(update={"queues": (queue.model_copy(update={"on_failure": "halt"}),)})

    async def test_a_halt_is_counted(self, given: GivenQueues, product: Product, start_worker: StartWorker) -> None:
        worker = start_worker()

        await product.submit({"do": "bug"})

        await until(lambda: counted(given, worker)["session_halted"] == 1)
        assert counted(given, worker)["turn_failed"] == 0, "one failure is one page"


async def test_a_hold_is_measured_while_it_lasts(
    given: GivenQueues, product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker(TURNSTILE_SESSION_RUN_SECONDS="0.1")

    await product.submit({"do": "sleep", "seconds": 600})

    [line, *_] = await until(lambda: worker.said("session.held"), within=60)
    assert matches(given.terraform["log_patterns"]["lock_held"], line)
    assert line["held_seconds"] > 0
    assert worker.said("session.unlock") == []


async def test_locks_are_counted_taken_busy_held_and_without_redis(
    given: GivenQueues, product: Product, start_worker: StartWorker, stack: Stack, tmp_path: Path
) -> None:
    worker = start_worker()
    # One holds the session while the message of the other comes.
    first: UUID = (await product.submit({"do": "sleep", "seconds": 1.0}))[0]
    await product.status_is(first, "RUNNING")
    await product.submit({"do": "echo"})
    await product.ended()
    # It may have had to look again before.
    await until(lambda: "released" in {line["result"] for line in worker.said("session.unlock")})
    calm = counted(given, worker)

    # As often as the product says so: on a slow machine a wake-up may come twice.
    results = Counter(line["result"] for line in worker.said("session.lock"))
    assert calm["lock_busy"] == results["busy"] >= 1
    assert calm["lock_unguarded"] == results["unguarded"]
    assert calm["lock_attempt"] == results.total()
    assert calm["lock_wait"] == results["locked"] >= 1
    assert all(line["seconds"] >= 0 for line in worker.said("session.lock"))
    assert calm["lock_held"] == len(worker.said("session.unlock"))
    assert all(line["held_seconds"] >= 0 for line in worker.said("session.unlock"))

    await asyncio.to_thread(stack.redis.stop)
    try:
        await product.submit({"do": "echo"})
        await until(lambda: counted(given, worker)["lock_unguarded"] > calm["lock_unguarded"])
        assert counted(given, worker)["lock_timeout"] > calm["lock_timeout"]
    finally:
        await asyncio.to_thread(stack.redis.start)
