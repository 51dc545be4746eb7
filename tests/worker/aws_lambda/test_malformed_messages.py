"""Messages that can't be read go to the DLQ, or come back alone where it does not take them."""

from typing import Any

import pytest
import structlog.testing

from tests.support.event_source import EventSource
from tests.support.invoking import MakeFunction, rows, send_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.worker.aws_lambda import invocation as lambda_invocation


async def test_what_cannot_be_read_goes_to_the_dlq_and_its_neighbours_are_answered(
    database: Database, queues: MessageQueues, settings: Settings, source: EventSource, function: MakeFunction
) -> None:
    source.send("not ours")
    await send_turns(database, queues, settings, "a")

    assert await source.invoke(function(), await source.poll(2)) == []

    [dead] = await queues.receive(settings.queue, 10, dead=True)
    assert dead.body == "not ours"
    assert await rows(database, "status") == [("SUCCEEDED",)]


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_what_the_dlq_does_not_take_comes_back_alone_and_soon(
    database: Database,
    queues: MessageQueues,
    settings: Settings,
    source: EventSource,
    function: MakeFunction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lambda_invocation, "BACK_AFTER_SECONDS", 1)
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


async def test_messages_whose_queue_has_vanished_are_reported_and_their_neighbours_are_not(
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
    told = [line["log_level"] for line in lines if line["event"].startswith("lambda.") and "error" in line]
    assert (told, [line for line in lines if line["event"] == "lambda.failed"]) == (["warning"], [])
