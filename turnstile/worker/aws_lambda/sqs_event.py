"""Reads Lambda's SQS event, and writes the response: the messages that Lambda must not delete. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstile.errors import TurnstileError
from turnstile.turn.envelope import QueueAddress, ReceivedMessage


class EventRefusedError(TurnstileError):
    """The event is not from the function's own queue. No message is processed, and SQS delivers all of them again."""


@dataclass(frozen=True, slots=True)
class SqsRecord:
    """A message of the event, and its FIFO group; None on a standard queue."""

    message: ReceivedMessage
    group: str | None


def read_event(event: Any, address: QueueAddress) -> list[SqsRecord]:
    """The event's messages, in the event's order. Raises EventRefusedError."""
    try:
        return [_read(record, address) for record in event["Records"]]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise EventRefusedError(f"not an event of an SQS queue: {type(error).__name__}: {error}") from error


def _read(record: Mapping[str, Any], address: QueueAddress) -> SqsRecord:
    name = str(record["eventSourceARN"]).rpartition(":")[2]
    if name != address.url.rstrip("/").rpartition("/")[2]:
        # Otherwise a malformed message would be sent to the wrong queue's DLQ.
        raise EventRefusedError(f"the event is from queue {name!r}, but this function serves {address.name!r}")
    system = record["attributes"]
    values = record.get("messageAttributes") or {}
    message = ReceivedMessage(
        message_id=record["messageId"],
        body=record["body"],
        receipt_handle=record["receiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        attributes={key: value["stringValue"] for key, value in values.items() if value.get("stringValue")},
        moved_by_sqs="DeadLetterQueueSourceArn" in system,
    )
    # On a standard queue the group is the tenant, and implies no order.
    return SqsRecord(message, str(system["MessageGroupId"]) if address.fifo else None)


def not_to_delete(records: Sequence[SqsRecord], done: Collection[str]) -> list[SqsRecord]:
    """The records whose message is not in `done`, and all later ones of their groups: otherwise the order would be lost."""
    kept: list[SqsRecord] = []
    broken: set[str] = set()
    for one in records:
        if one.message.message_id not in done or one.group in broken:
            kept.append(one)
            if one.group is not None:
                broken.add(one.group)
    return kept


def report(kept: Sequence[SqsRecord]) -> dict[str, Any]:
    """The function's response under ReportBatchItemFailures: Lambda deletes every message of the event but these."""
    return {"batchItemFailures": [{"itemIdentifier": one.message.message_id} for one in kept]}
