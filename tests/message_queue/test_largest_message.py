"""A malformed message as large as SQS allows: attributes count into the limit, so its copy has no room for ours."""

from typing import Any

import pytest

from turnstile.backends.sqs.sqs_client import CallRefusedError
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import ReceivedMessage

LIMIT = 262_144
TOO_LONG = "AWS.SimpleQueueService.BatchRequestTooLong"


def size(entry: Any) -> int:
    attributes = entry["MessageAttributes"].items()
    return len(entry["MessageBody"]) + sum(
        len(name) + len(value["DataType"]) + len(value["StringValue"]) for name, value in attributes
    )


@pytest.fixture(params=["the call", "the entry"])
def limited(request: pytest.FixtureRequest, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch) -> MessageQueues:
    """Queues whose sends are counted as AWS does, which refuses the whole call or only its entry."""
    call = queues._client.call

    async def counted(operation: str, parameters: Any, **more: Any) -> Any:
        if operation == "SendMessageBatch" and sum(map(size, parameters["Entries"])) > LIMIT:
            if request.param == "the call":
                raise CallRefusedError(TOO_LONG, "longer than allowed")
            return {"Failed": [{"Id": "0", "Code": "InvalidParameterValue", "SenderFault": True}]}
        return await call(operation, parameters, **more)

    monkeypatch.setattr(queues._client, "call", counted)
    return queues


def malformed(characters: int) -> ReceivedMessage:
    return ReceivedMessage("m-1", "x" * characters, "handle", 1, {"its": "own"}, False)


async def test_the_largest_malformed_message_reaches_the_dlq_whole(settings: Settings, limited: MessageQueues) -> None:
    await limited.dead_letter_malformed(settings.queue, malformed(LIMIT), "body is not JSON")

    [dead] = await limited.receive(settings.queue, 1, dead=True)
    assert dead.body == "x" * LIMIT


async def test_one_with_room_keeps_its_attributes_and_the_reason(settings: Settings, limited: MessageQueues) -> None:
    await limited.dead_letter_malformed(settings.queue, malformed(LIMIT - 1000), "body is not JSON")

    [dead] = await limited.receive(settings.queue, 1, dead=True)
    assert dead.attributes["its"] == "own"
    assert dead.attributes["turnstile.reason"] == "malformed: body is not JSON"


async def test_a_message_that_sqs_refuses_in_any_form_is_not_taken_for_sent(
    settings: Settings, limited: MessageQueues
) -> None:
    with pytest.raises(QueueUnavailableError):
        await limited.dead_letter_malformed(settings.queue, malformed(LIMIT + 1), "body is not JSON")


@pytest.mark.parametrize("what", ["the call", "the entry"])
async def test_a_copy_that_sqs_refuses_for_a_moment_is_not_sent_without_its_reason(
    settings: Settings, queues: MessageQueues, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    call = queues._client.call

    async def busy(operation: str, parameters: Any, **more: Any) -> Any:
        if operation == "SendMessageBatch" and parameters["Entries"][0]["MessageAttributes"]:
            if what == "the call":
                raise CallRefusedError("InternalError", "busy", passing=True)
            return {"Failed": [{"Id": "0", "Code": "InternalError", "SenderFault": False}]}
        return await call(operation, parameters, **more)

    with monkeypatch.context() as fault:
        fault.setattr(queues._client, "call", busy)
        with pytest.raises(QueueUnavailableError):
            await queues.dead_letter_malformed(settings.queue, malformed(2), "body is not JSON")

    assert await queues.count(settings.queue, dead=True) == 0
