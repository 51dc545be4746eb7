"""Messages that can't be read go to the DLQ, or come back alone if the DLQ refuses them."""

from typing import Any

import pytest

from tests.support.event_source import EventSource
from tests.worker.aws_lambda.lambda_invocations import MakeFunction, rows, send_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues


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
