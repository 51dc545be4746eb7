"""What an SQS request asks for (JSON protocol). Pure."""

import json
import re
from dataclasses import dataclass
from typing import Any

from tests.proof.proxy.http_messages import HttpMessage

REASON = "turnstile.reason"
"""The message attribute that says why a message is on the DLQ."""

_OPERATIONS = {
    "SendMessage": ("send", False),
    "SendMessageBatch": ("send", True),
    "ReceiveMessage": ("receive", False),
    "DeleteMessage": ("delete", False),
    "DeleteMessageBatch": ("delete", True),
    "ChangeMessageVisibility": ("visibility", False),
    "ChangeMessageVisibilityBatch": ("visibility", True),
}
_TURN_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Call:
    request: HttpMessage
    operation: str
    action: str
    """One of `toxics.ACTIONS`."""
    batch: bool
    queue: str
    data: dict[str, Any]

    @property
    def dead(self) -> bool:
        return is_dead(self.queue)

    @property
    def fifo(self) -> bool:
        return self.queue.endswith(".fifo")

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What it asks to be sent, deleted or changed: one entry if the call is not a batch."""
        if self.batch:
            return list(self.data.get("Entries") or [])
        return [] if self.action in {"receive", "other"} else [self.data]

    def with_entries(self, entries: list[dict[str, Any]]) -> HttpMessage:
        """The request with other entries than it came with."""
        data = self.data | {"Entries": entries} if self.batch else entries[0]
        return self.request.with_body(json.dumps(data).encode())


def is_dead(queue: str) -> bool:
    return queue.removesuffix(".fifo").endswith("-dlq")


def read_call(request: HttpMessage) -> Call:
    """Understands a request; one that it does not know is of action `other`."""
    operation = request.header("x-amz-target").rpartition(".")[2]
    action, batch = _OPERATIONS.get(operation, ("other", False))
    data = request.json()
    queue = str(data.get("QueueUrl") or data.get("QueueName") or "").rpartition("/")[2]
    return Call(request, operation, action, batch, queue, data)


@dataclass(frozen=True, slots=True)
class Subject:
    """The turn of a message, by its body. The product's own reader is not asked: it is under test."""

    turn_id: str | None
    session: str | None
    body: str | None
    """The text of a malformed message."""


def read_body(body: str) -> Subject:
    """Reads a message body; anything that is not a wake-up of version 1 is malformed."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.get("v") == 1 and found["v"] is not True:
        tenant, session, turn_id = (found.get(name) for name in ("tenant_id", "session_id", "turn_id"))
        if isinstance(session, str) and isinstance(tenant, str) and _TURN_ID.fullmatch(str(turn_id)):
            return Subject(str(turn_id).lower(), session, None)
    return Subject(None, None, body)


def read_reason(entry: dict[str, Any]) -> str | None:
    attribute = (entry.get("MessageAttributes") or {}).get(REASON) or {}
    found = attribute.get("StringValue")
    return found if isinstance(found, str) else None
