"""Lambda's event and its response: every message is accounted for, and no group loses its order."""

from typing import Any

import pytest

from turnstile.turn.envelope import QueueAddress
from turnstile.worker.aws_lambda.sqs_event import EventRefusedError, not_to_delete, read_event, report

STANDARD = QueueAddress("chat", "https://sqs.eu-central-1.amazonaws.com/123456789012/turnstile-chat", "", 60.0)
FIFO = QueueAddress("chat", "https://sqs.eu-central-1.amazonaws.com/123456789012/chat.fifo", "", 60.0)


def record(message_id: str, queue: str = "turnstile-chat", group: str | None = None, **fields: Any) -> dict[str, Any]:
    system = {"ApproximateReceiveCount": "2", "SentTimestamp": "1"} | ({"MessageGroupId": group} if group else {})
    return {
        "messageId": message_id,
        "receiptHandle": f"handle-{message_id}",
        "body": "{}",
        "attributes": system,
        "messageAttributes": {"traceparent": {"stringValue": "00-abc-def-01", "dataType": "String"}},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:eu-central-1:123456789012:{queue}",
        **fields,
    }


def kept(groups: str, done: str) -> list[str]:
    """Those of messages 0, 1, 2 … in these groups that Lambda is not to delete."""
    records = [record(str(place), "chat.fifo", group) for place, group in enumerate(groups)]
    return [one.message.message_id for one in not_to_delete(read_event({"Records": records}, FIFO), set(done))]


def test_a_message_equals_one_that_a_worker_receives() -> None:
    [one] = read_event({"Records": [record("m-1")]}, STANDARD)

    assert (one.message.message_id, one.message.receipt_handle, one.message.body) == ("m-1", "handle-m-1", "{}")
    assert (one.message.receive_count, one.message.trace_id, one.message.moved_by_sqs) == (2, "abc", False)


def test_a_binary_attribute_is_ignored() -> None:
    binary = {"x": {"binaryValue": "AA==", "dataType": "Binary"}}

    [one] = read_event({"Records": [record("m-1", messageAttributes=binary)]}, STANDARD)

    assert one.message.attributes == {}


@pytest.mark.parametrize("event", [None, {}, {"Records": None}, {"Records": [{}]}, {"Records": ["x"]}])
def test_an_event_that_is_not_from_a_queue_is_refused(event: Any) -> None:
    with pytest.raises(EventRefusedError):
        read_event(event, STANDARD)


def test_an_event_of_another_queue_is_refused() -> None:
    with pytest.raises(EventRefusedError, match="'other'"):
        read_event({"Records": [record("m-1", "other")]}, STANDARD)


def test_the_response_names_message_ids() -> None:
    records = read_event({"Records": [record("m-1"), record("m-2")]}, STANDARD)

    assert report(not_to_delete(records, {"m-1"})) == {"batchItemFailures": [{"itemIdentifier": "m-2"}]}


@pytest.mark.parametrize(
    ("groups", "done", "reported"),
    [
        ("aaa", "012", []),
        ("aaa", "02", ["1", "2"]),
        ("aab", "12", ["0", "1"]),
        ("aba", "12", ["0", "2"]),
        ("abab", "023", ["1", "3"]),
        ("ab", "", ["0", "1"]),
    ],
)
def test_a_group_is_reported_from_its_first_failure_on(groups: str, done: str, reported: list[str]) -> None:
    assert kept(groups, done) == reported


def test_the_groups_of_a_standard_queue_imply_no_order() -> None:
    records = read_event({"Records": [record("0", group="t"), record("1", group="t")]}, STANDARD)

    assert [one.message.message_id for one in not_to_delete(records, {"1"})] == ["0"]
