"""Messages that can't be read go to the DLQ, or come back alone if the DLQ refuses them."""

from typing import Any

import pytest
import structlog.testing

from tests.support.event_source import EventSource
from tests.worker.aws_lambda.lambda_invocations import MakeFunction, rows, send_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues


async def test_a_malformed_message_goes_to_the_dlq_and_the_others_are_answered(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    source.send("not ours")
    await send_turns(database, queues, settings, "a")

    assert await source.invoke(function(), await source.poll(2)) == []

    [dead] = await queues.receive(settings.queue, 10, dead=True)
    assert dead.body == "not ours"
    assert await rows(database, "status") == [("SUCCEEDED",)]


async def test_a_message_that_the_dlq_refuses_comes_back_alone_and_soon(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.send("not ours")
    await send_turns(database, queues, settings, "a")

    async def refuse(*_: Any) -> None:
        raise QueueUnavailableError("the DLQ is away")

    with monkeypatch.context() as away:
        away.setattr(MessageQueues, "dead_letter_malformed", refuse)
        assert await source.invoke(function(), await source.poll(2)) == ["not ours"]

    assert await rows(database, "status") == [("SUCCEEDED",)]
    assert await source.invoke(function(), await source.poll(1)) == []
    assert await queues.count(settings.queue) == 0


async def test_after_the_queue_was_deleted_only_malformed_messages_are_reported(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.send("not ours")
    await send_turns(database, queues, settings, "a")
    event = await source.poll(2)

    async def vanished(*_: Any, **__: Any) -> None:
        raise UnknownQueueError(settings.queue)

    monkeypatch.setattr(MessageQueues, "dead_letter_malformed", vanished)
    monkeypatch.setattr(MessageQueues, "give_back", vanished)

    with structlog.testing.capture_logs() as lines:
        assert await source.invoke(function(), event) == ["not ours"]

    assert await rows(database, "status") == [("SUCCEEDED",)]
    logged = [line["log_level"] for line in lines if line["event"].startswith("lambda.") and "error" in line]
    assert (logged, [line for line in lines if line["event"] == "lambda.failed"]) == (["warning"], [])
