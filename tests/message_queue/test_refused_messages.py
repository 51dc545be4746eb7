"""What is said of a message that SQS refuses: a log line, and SQS's own reason in the error."""

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from turnstile.backends.sqs.sqs_client import CallRefusedError
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import OutgoingMessage, ReceivedMessage
from turnstile.turn.wire_format import WakeUp

MALFORMED = ReceivedMessage("m-1", "not JSON", "handle", 1, {}, False)


async def send(queues: MessageQueues, queue: str) -> None:
    assert await queues.send(queue, [OutgoingMessage(WakeUp("t", "s", uuid4()), "")]) == []


async def dead_letter(queues: MessageQueues, queue: str) -> None:
    with pytest.raises(QueueUnavailableError):
        await queues.dead_letter_malformed(queue, MALFORMED, "body is not JSON")


@pytest.mark.parametrize("attempt", [send, dead_letter])
async def test_a_refused_message_is_logged_with_the_code_and_whose_fault_it_is(
    settings: Settings,
    queues: MessageQueues,
    monkeypatch: pytest.MonkeyPatch,
    attempt: Callable[[MessageQueues, str], Awaitable[None]],
) -> None:
    await queues.find(settings.queue)

    async def refuse(*_: Any, **__: Any) -> Any:
        return {"Failed": [{"Id": "0", "Code": "InternalError", "SenderFault": False}]}

    monkeypatch.setattr(queues._client, "call", refuse)
    with capture_logs() as lines:
        await attempt(queues, settings.queue)

    refused = [line for line in lines if line["event"] == "queue.send_refused"]
    assert [(line["code"], line["ours"]) for line in refused] == [("InternalError", False)]


async def test_the_error_of_a_message_that_sqs_refuses_in_any_form_has_its_reason(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queues.find(settings.queue)

    async def refuse(*_: Any, **__: Any) -> Any:
        raise CallRefusedError("InvalidParameterValue", "longer than allowed")

    monkeypatch.setattr(queues._client, "call", refuse)

    with pytest.raises(QueueUnavailableError, match="longer than allowed"):
        await queues.dead_letter_malformed(settings.queue, MALFORMED, "body is not JSON")
