"""Retries, dead letters, poison and what an operator does about them."""

import json
from pathlib import Path

import pytest

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack


async def dead_letters(product: Product) -> int:
    return await product.queues.count(product.settings.queue, dead=True)


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_failing_turn_reaches_the_dlq_after_exactly_n_attempts(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker()

    [turn] = await product.submit({"do": "fail"}, max_attempts=3)

    await product.status_is(turn, "FAILED")
    assert len(await product.evidence()) == 3
    await until(lambda: dead_letters(product))
    [letter] = await product.queues.receive(product.settings.queue, 10, dead=True)
    assert json.loads(letter.body)["turn_id"] == str(turn)
    assert letter.attributes["turnstile.reason"] == "ConnectionError"
    assert letter.attributes["turnstile.attempts"] == "3"
    assert letter.dead_letter_generation == 1
    assert len(worker.said("turn.failed")) == 1
    assert [line["level"] for line in worker.said("turn.failed")] == ["error"]
    (line,) = worker.said("turn.failed")
    assert line["turn_id"] == str(turn)
    assert {"session_id", "trace_id", "attempt", "fence", "seconds"} <= line.keys()


async def test_a_failure_is_told_by_another_process_than_the_one_that_committed_it(
    product: Product, start_worker: StartWorker
) -> None:
    """The one that did may have been killed before it could write its line."""
    worker = start_worker(TURNSTILE_RELAY="false")
    [turn] = await product.submit({"do": "bug"})
    await product.status_is(turn, "FAILED")
    worker.kill()

    relay = start_worker("relay")

    [line] = await until(lambda: relay.said("queue.attention"))
    assert (line["queue"], line["failed_lately"], line["level"]) == (product.settings.queue, 1, "warning")


async def test_what_cannot_heal_is_dead_lettered_at_once(product: Product, start_worker: StartWorker) -> None:
    start_worker()

    [turn] = await product.submit({"do": "bug"})

    await product.status_is(turn, "FAILED")
    assert (await product.row(turn))["error_class"] == "ValueError"
    assert len(await product.evidence()) == 1
    await until(lambda: dead_letters(product))


async def test_a_handler_may_fail_a_turn_without_a_dead_letter(product: Product, start_worker: StartWorker) -> None:
    start_worker()

    [turn] = await product.submit({"do": "reject", "dead_letter": False})

    await product.status_is(turn, "FAILED")
    row = await product.row(turn)
    assert (row["send_at"], row["dead_lettered_at"]) == (None, None)
    assert await dead_letters(product) == 0


async def test_a_flaky_turn_succeeds_and_the_next_waits_for_it(product: Product, start_worker: StartWorker) -> None:
    start_worker()

    first, second = await product.submit({"do": "flaky", "times": 2}, {"do": "echo"})

    await product.ended()
    assert (await product.row(first))["attempt"] == 3
    assert [row["turn_id"] for row in await product.evidence()] == [first, first, first, second]
    await product.check_sessions()


async def test_a_snooze_spends_no_attempt(product: Product, start_worker: StartWorker, tmp_path: Path) -> None:
    start_worker()
    gate = tmp_path / "open"
    [turn] = await product.submit({"do": "snooze", "until": str(gate)}, max_attempts=1)

    async def snoozed_often() -> bool:
        return len(await product.evidence()) >= 3

    await until(snoozed_often)
    gate.touch()

    await product.status_is(turn, "SUCCEEDED")
    assert (await product.row(turn))["attempt"] == 1


async def test_a_reply_that_postgres_refuses_is_cleaned(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()

    [turn] = await product.submit({"do": "nul"})

    await product.status_is(turn, "SUCCEEDED")
    [message] = await product.fetch("SELECT content FROM messages WHERE role = 'assistant'")
    assert message["content"] == "abc"
    assert [line["characters"] for line in worker.said("reply.cleaned")] == [2]


async def test_a_reply_that_is_not_json_fails_the_turn(product: Product, start_worker: StartWorker) -> None:
    start_worker()

    [turn] = await product.submit({"do": "unfit"})

    await product.status_is(turn, "FAILED")
    assert (await product.row(turn))["error_class"] == "unfit_reply"


async def test_a_malformed_message_goes_to_the_dlq_as_it_is_and_is_an_error(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    worker = start_worker()
    address = await product.queues.find(product.settings.queue)

    sqs_client(stack).send_message(QueueUrl=address.url, MessageBody='{"v": 99, "not": "ours"}')

    await until(lambda: dead_letters(product))
    [letter] = await product.queues.receive(product.settings.queue, 10, dead=True)
    assert letter.body == '{"v": 99, "not": "ours"}'
    assert letter.attributes["turnstile.reason"].startswith("malformed")
    await until(lambda: _drained(product))
    assert {line["level"] for line in worker.said("message.malformed")} == {"error"}
    assert "ours" not in json.dumps(worker.said("message.malformed"))


async def _drained(product: Product) -> bool:
    return await product.queues.count(product.settings.queue) == 0


async def test_a_phantom_message_is_deleted_and_said(product: Product, start_worker: StartWorker) -> None:
    from uuid import uuid4

    worker = start_worker()

    await product.send(("nobody", uuid4()))

    await until(lambda: worker.said("message.phantom"))
    await until(lambda: _drained(product))
    assert await dead_letters(product) == 0


async def test_a_dead_letter_that_was_moved_back_runs_as_a_redrive(
    product: Product, start_worker: StartWorker, stack: Stack
) -> None:
    start_worker()
    [turn] = await product.submit({"do": "bug"})
    await until(lambda: dead_letters(product))
    await product.fetch_nothing('UPDATE messages SET content = \'{"do": "echo"}\'')
    address = await product.queues.find(product.settings.queue)
    client = sqs_client(stack)

    # What the console's "start DLQ redrive" does to a message: the same body and attributes on the source queue.
    [dead] = client.receive_message(QueueUrl=address.dlq_url, MessageAttributeNames=["All"])["Messages"]
    client.send_message(QueueUrl=address.url, MessageBody=dead["Body"], MessageAttributes=dead["MessageAttributes"])
    client.delete_message(QueueUrl=address.dlq_url, ReceiptHandle=dead["ReceiptHandle"])

    await product.status_is(turn, "SUCCEEDED")
    row = await product.row(turn)
    assert (row["generation"], row["attempt"], row["seq"]) == (2, 1, 2)
