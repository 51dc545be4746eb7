"""The benchmark's emulator keeps SQS's promises: what it got wrong would be measured as a contender's speed."""

import json
from typing import Any

import pytest

from bench.emulator.actions import LongPoll, RefusedError, Sqs
from bench.emulator.queue import Queue


class Clock:
    """Seconds, by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sqs(clock: Clock) -> Sqs:
    served = Sqs("http://here", clock)
    act(served, "CreateQueue", QueueName="q", Attributes={"VisibilityTimeout": "30"})
    return served


def act(sqs: Sqs, action: str, **fields: Any) -> Any:
    if action != "CreateQueue":
        fields = {"QueueUrl": "http://here/000000000000/q", **fields}
    answer = sqs.act(action, fields, lambda _: None)
    assert isinstance(answer, bytes)
    return json.loads(answer)


def receive(sqs: Sqs, most: int = 10) -> list[dict[str, Any]]:
    return list(act(sqs, "ReceiveMessage", MaxNumberOfMessages=most).get("Messages", []))


def queue_of(sqs: Sqs) -> Queue:
    return sqs.queues["q"]


def test_a_message_is_received_once_and_is_gone_when_it_is_deleted(sqs: Sqs, clock: Clock) -> None:
    act(sqs, "SendMessage", MessageBody='{"a": "é"}', MessageAttributes={"x": {"StringValue": "1"}})

    [message] = receive(sqs)
    assert message["Body"] == '{"a": "é"}'
    assert message["MessageAttributes"] == {"x": {"StringValue": "1"}}
    assert receive(sqs) == []
    act(sqs, "DeleteMessageBatch", Entries=[{"Id": "0", "ReceiptHandle": message["ReceiptHandle"]}])
    clock.now += 100
    queue_of(sqs).sweep(clock.now)
    assert receive(sqs) == []
    assert queue_of(sqs).depth == dict.fromkeys(queue_of(sqs).depth, 0)


def test_what_is_not_deleted_in_time_is_delivered_again(sqs: Sqs, clock: Clock) -> None:
    act(sqs, "SendMessage", MessageBody="b")
    [first] = receive(sqs)

    clock.now += 31
    queue_of(sqs).sweep(clock.now)

    [second] = receive(sqs)
    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    assert queue_of(sqs).messages["redelivered"] == 1


def test_a_message_whose_visibility_was_changed_stays_away_for_so_long(sqs: Sqs, clock: Clock) -> None:
    act(sqs, "SendMessage", MessageBody="b")
    [message] = receive(sqs)
    clock.now += 20
    act(sqs, "ChangeMessageVisibility", ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=30)

    clock.now += 20
    queue_of(sqs).sweep(clock.now)
    assert receive(sqs) == []
    clock.now += 11
    queue_of(sqs).sweep(clock.now)
    assert len(receive(sqs)) == 1


def test_a_poll_waits_and_is_answered_by_the_next_message(sqs: Sqs) -> None:
    answers: list[bytes] = []
    url = "http://here/000000000000/q"
    waiting = sqs.act("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20}, answers.append)
    assert isinstance(waiting, LongPoll)

    act(sqs, "SendMessage", MessageBody="b")

    assert [json.loads(answer)["Messages"][0]["Body"] for answer in answers] == ["b"]


def test_the_poll_of_a_client_that_is_gone_gets_nothing(sqs: Sqs) -> None:
    answers: list[bytes] = []
    url = "http://here/000000000000/q"
    waiting = sqs.act("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20}, answers.append)
    assert isinstance(waiting, LongPoll)
    waiting.queue.forget(waiting.poll)

    act(sqs, "SendMessage", MessageBody="b")

    assert answers == []
    assert len(receive(sqs)) == 1


def test_every_call_is_counted(sqs: Sqs) -> None:
    act(sqs, "SendMessageBatch", Entries=[{"Id": str(n), "MessageBody": "b"} for n in range(3)])
    receive(sqs, most=2)
    receive(sqs, most=2)

    assert queue_of(sqs).calls == {"SendMessageBatch": 1, "ReceiveMessage": 2}
    assert queue_of(sqs).messages == {"sent": 3, "received": 3}


def test_a_queue_that_is_not_there_is_refused(sqs: Sqs) -> None:
    with pytest.raises(RefusedError) as refused:
        act(sqs, "SendMessage", QueueUrl="http://here/000000000000/other", MessageBody="b")

    assert refused.value.code.endswith("QueueDoesNotExist")
