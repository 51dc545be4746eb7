"""SQS messages as they are sent and received, and the addresses of queues. The body is in `wire_format`. Pure."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnstile.turn.identifiers import TraceContext
from turnstile.turn.wire_format import (
    DEAD_LETTER_GENERATION,
    DEAD_LETTER_REASON,
    MAX_VISIBILITY_SECONDS,
    TRACEPARENT,
    WakeUp,
)

MAX_ATTRIBUTE_CHARACTERS = 200

Attributes = dict[str, dict[str, str]]


def string_attributes(values: dict[str, str]) -> Attributes:
    """Message attributes of type String, each value cut to MAX_ATTRIBUTE_CHARACTERS. Empty values are left out."""
    # SQS refuses an attribute whose value is empty.
    return {
        name: {"DataType": "String", "StringValue": value[:MAX_ATTRIBUTE_CHARACTERS]}
        for name, value in values.items()
        if value
    }


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    wake_up: WakeUp
    traceparent: str

    @classmethod
    def about(cls, row: Mapping[str, Any]) -> "OutgoingMessage":
        """The wake-up for a row of `turns`, in the trace of that row."""
        trace = TraceContext(row["trace_id"], row["span_id"])
        return cls(WakeUp(row["tenant_id"], row["session_id"], row["id"]), trace.traceparent)

    @property
    def attributes(self) -> Attributes:
        """Its message attributes: the trace context, which is never in the body."""
        return string_attributes({TRACEPARENT: self.traceparent})


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The DLQ message of a FAILED turn, for operators. A redrive, or AWS's own tools, can bring it back."""

    message: OutgoingMessage
    error_class: str
    attempts: int
    fence: int
    generation: int
    source_queue: str = ""

    @property
    def attributes(self) -> Attributes:
        """Error class and counts, never the error's text: it may quote the user's message."""
        return self.message.attributes | string_attributes(
            {
                DEAD_LETTER_REASON: self.error_class,
                DEAD_LETTER_GENERATION: str(self.generation),
                "turnstile.attempts": str(self.attempts),
                "turnstile.fence": str(self.fence),
                "turnstile.source_queue": self.source_queue,
            }
        )


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One delivery of a message."""

    message_id: str
    body: str
    receipt_handle: str
    receive_count: int
    attributes: dict[str, str]
    moved_by_sqs: bool
    """Whether SQS itself moved it to this (dead-letter) queue, by the RedrivePolicy."""
    received_at: float = field(default_factory=time.monotonic)

    @property
    def trace_id(self) -> str | None:
        """The trace id of the message, for log lines; None if it has none."""
        parts = self.attributes.get(TRACEPARENT, "").split("-")
        return parts[1] if len(parts) == 4 else None

    @property
    def dead_letter_generation(self) -> int | None:
        """The generation of this dead letter; None for an ordinary wake-up."""
        text = self.attributes.get(DEAD_LETTER_GENERATION, "")
        return int(text) if text.isdecimal() and len(text) < 10 else None

    def visibility_left(self, wanted_seconds: float, now: float) -> int:
        """Whole seconds for which it can stay invisible from `now` (monotonic); SQS refuses more than 12 h in total."""
        return max(0, min(int(wanted_seconds), int(MAX_VISIBILITY_SECONDS - (now - self.received_at)) - 60))


@dataclass(frozen=True, slots=True)
class QueueAddress:
    """The SQS URLs of a declared queue and of its DLQ."""

    name: str
    url: str
    dlq_url: str
    visibility_seconds: float

    @property
    def fifo(self) -> bool:
        """Whether it is a FIFO queue. AWS requires the suffix for FIFO queues only."""
        return self.url.endswith(".fifo")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDepth:
    """Approximate numbers of the messages of an SQS queue, as SQS counts them."""

    visible: int
    """Can be received now."""
    in_flight: int
    """Received, and neither deleted nor visible again."""
    delayed: int
    """Not visible yet, because they were sent with a delay."""

    @property
    def messages(self) -> int:
        return self.visible + self.in_flight + self.delayed
