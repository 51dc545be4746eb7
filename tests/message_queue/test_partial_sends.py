"""An operation of several calls: a send of which SQS takes only the first, and an extension while SQS is away."""

from typing import Any
from uuid import uuid4

import pytest

from tests.support.processors import message_about
from turnstile.backends.sqs.sqs_client import CallRefusedError
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage
from turnstile.turn.wire_format import WakeUp


async def test_messages_that_were_sent_before_an_outage_count_as_sent(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = [OutgoingMessage(WakeUp("t", f"s-{number}", uuid4()), "") for number in range(25)]
    call, sends = queues._client.call, 0

    async def one_call_only(operation: str, parameters: Any) -> Any:
        nonlocal sends
        sends += operation == "SendMessageBatch"
        if sends > 1:
            raise QueueUnavailableError("gone")
        return await call(operation, parameters)

    monkeypatch.setattr(queues._client, "call", one_call_only)

    assert await queues.send(settings.queue, messages) == messages[:10]

    monkeypatch.undo()
    assert await queues.count(settings.queue) == 10


@pytest.mark.parametrize(
    ("error", "expected"), [(QueueUnavailableError("away"), 1), (CallRefusedError("Invalid", "a stale handle"), 3)]
)
async def test_an_extension_goes_on_after_a_refusal_and_not_during_an_outage(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: int
) -> None:
    address, calls = await queues.find(settings.queue), 0

    async def fail(*_: Any, **__: Any) -> Any:
        nonlocal calls
        calls += 1
        raise error

    monkeypatch.setattr(queues._client, "call", fail)

    await queues.extend(address, [message_about(uuid4()) for _ in range(25)])

    assert calls == expected
