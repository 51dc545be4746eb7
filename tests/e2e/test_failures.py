"""Failed turns, unfit replies and unusable messages."""

import json
from uuid import uuid4

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.support.probes import until
from tests.support.stacks.stack import Stack


async def dead_letters(product: Product) -> int:
    return await product.queues.count(product.settings.queue, dead=True)


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


async def test_characters_that_postgres_refuses_are_removed_from_a_reply(
    product: Product, start_worker: StartWorker
) -> None:
    worker = start_worker()

    [turn] = await product.submit({"do": "nul"})

    await product.status_is(turn, "SUCCEEDED")
    assert await product.reply_of(turn) == "abc"
    assert [line["characters"] for line in worker.said("reply.cleaned")] == [2]


async def test_a_malformed_message_goes_to_the_dlq_unchanged_and_is_logged_as_an_error(
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


async def test_a_message_without_a_turn_is_deleted_and_logged(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()

    await product.send(("nobody", uuid4()))

    await until(lambda: worker.said("message.phantom"))
    await until(lambda: _drained(product))
    assert await dead_letters(product) == 0
