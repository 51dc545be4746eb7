"""Messages that can't be read go to the DLQ, or come back alone if the DLQ refuses them."""

from typing import Any

import pytest
import structlog.testing

from tests.worker.aws_lambda.lambda_invocations import Site
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues


async def test_a_malformed_message_goes_to_the_dlq_and_the_others_are_answered(site: Site) -> None:
    site.source.send("not ours")
    await site.send("a")

    assert await site.invoke(2) == []

    [dead] = await site.queues.receive(site.settings.queue, 10, dead=True)
    assert dead.body == "not ours"
    assert await site.rows("status") == [("SUCCEEDED",)]


async def test_a_message_that_the_dlq_refuses_comes_back_alone_and_soon(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.source.send("not ours")
    await site.send("a")

    async def refuse(*_: Any) -> None:
        raise QueueUnavailableError("the DLQ is away")

    with monkeypatch.context() as away:
        away.setattr(MessageQueues, "dead_letter_malformed", refuse)
        assert await site.invoke(2) == ["not ours"]

    assert await site.rows("status") == [("SUCCEEDED",)]
    assert await site.invoke(1) == []
    assert await site.queues.count(site.settings.queue) == 0


async def test_after_the_queue_was_deleted_only_malformed_messages_are_reported(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.source.send("not ours")
    await site.send("a")
    event = await site.source.poll(2)

    async def vanished(*_: Any, **__: Any) -> None:
        raise UnknownQueueError(site.settings.queue)

    monkeypatch.setattr(MessageQueues, "dead_letter_malformed", vanished)
    monkeypatch.setattr(MessageQueues, "give_back", vanished)

    with structlog.testing.capture_logs() as lines:
        assert await site.source.invoke(site.function(), event) == ["not ours"]

    assert await site.rows("status") == [("SUCCEEDED",)]
    logged = [line["log_level"] for line in lines if line["event"].startswith("lambda.") and "error" in line]
    assert (logged, [line for line in lines if line["event"] == "lambda.failed"]) == (["warning"], [])
