"""The AsyncAPI description of the queue and its messages, made from the code that sends and reads them (G23, G33).

    python -m turnstile.ops.asyncapi > docs/asyncapi.yaml

What a field or an attribute is for stands here; which there are, and what they may hold, comes from `turn.message` and
`turn.envelope`. A new one without a description ends the generation with a KeyError.
"""

import json
import math
import sys
from dataclasses import fields
from typing import Any
from uuid import UUID

from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.ops.commands.queues import DEAD_LETTER_RETENTION_SECONDS, MAX_RECEIVE_COUNT
from turnstile.turn.envelope import MAX_ATTRIBUTE_CHARACTERS, DeadLetter, OutgoingMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.message import (
    DEAD_LETTER_GENERATION,
    DEAD_LETTER_REASON,
    ID_PATTERN,
    MAX_BODY_CHARACTERS,
    TRACEPARENT,
    VERSION,
    WakeUp,
)

SOURCE_QUEUE = "turnstile.source_queue"

_WAKE_UP = WakeUp("acme", "alice", UUID("01890a5d-ac96-774b-bcce-b302099a8057"))
_SENT = OutgoingMessage(_WAKE_UP, TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7").traceparent)
_DEAD = DeadLetter(_SENT, error_class="ProviderRejected", attempts=5, fence=41, generation=1, source_queue="turns")

_FIELDS: dict[str, str] = {
    "tenant_id": "Whose session it is.",
    "session_id": "The session to look at. Nothing else is decided from a message.",
    "turn_id": "The turn that the wake-up was sent for: for logs and redrive only.",
}

_TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string", "pattern": f"^{ID_PATTERN}$"},
    UUID: {"type": "string", "format": "uuid"},
}

_NUMBER = {"pattern": "^[0-9]{1,19}$"}

_ATTRIBUTES: dict[str, dict[str, Any]] = {
    TRACEPARENT: {
        "description": "W3C trace context of the turn. A redrive starts a new trace.",
        "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$",
    },
    DEAD_LETTER_REASON: {"description": "Class of the error that failed the turn, never its text."},
    DEAD_LETTER_GENERATION: {
        "description": "How often the turn had been put to work when it failed; rises with each redrive. A message on "
        "the source queue that has this attribute was moved back from the DLQ and counts as a redrive.",
        "pattern": "^[0-9]{1,9}$",
    },
    "turnstile.attempts": {"description": "Attempts of this generation.", **_NUMBER},
    "turnstile.fence": {"description": "Fence of the last claim.", **_NUMBER},
    SOURCE_QUEUE: {"description": "The queue, as it is declared, whose turn this was."},
}


def document() -> dict[str, Any]:
    """The description, as plain data."""
    queue = QueueSettings(name="turns")
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Turnstile: the queue between producer and worker",
            "version": f"{VERSION}.0.0",
            "description": "A message carries ids only and means: look at this session. The status table says what is "
            "to be done. Duplicates, losses and disorder of messages cost time, never correctness.",
        },
        "defaultContentType": "application/json",
        "channels": {"turns": _turns(queue), "deadLetters": _dead_letters(queue)},
        "operations": _operations(),
        "components": {
            "messages": {
                "wakeUp": _message("Look at this session.", _SENT.attributes, _SENT),
                "deadLetter": _message(
                    "A turn has FAILED. `turnstile redrive`, or moving the message back, puts it to work again.",
                    _DEAD.attributes,
                    _DEAD.message,
                ),
                "malformed": {
                    "summary": "A message that no worker could read, moved here with its body as it came.",
                    "contentType": "application/octet-stream",
                    "headers": _headers([DEAD_LETTER_REASON, SOURCE_QUEUE]),
                    "payload": {"type": "string", "description": "Anything."},
                },
            },
            "schemas": {"wakeUp": _payload()},
        },
    }


def _turns(queue: QueueSettings) -> dict[str, Any]:
    policy = {"deadLetterQueue": {"name": queue.dlq}, "maxReceiveCount": MAX_RECEIVE_COUNT}
    return {
        "address": queue.sqs,
        "title": "The wake-ups of one queue",
        "description": "Standard or FIFO, told by the suffix `.fifo`. MessageGroupId is the tenant's id on a standard "
        "queue (fair queues), a hash of tenant and session on a FIFO queue; there, MessageDeduplicationId is new with "
        "each send.",
        "messages": {
            "wakeUp": {"$ref": "#/components/messages/wakeUp"},
            "movedBack": {"$ref": "#/components/messages/deadLetter"},
        },
        "bindings": _bindings(
            queue.sqs,
            visibilityTimeout=math.ceil(queue.visibility_seconds),
            receiveMessageWaitTime=Settings.model_fields["receive_wait_seconds"].default,
            redrivePolicy=policy,
        ),
    }


def _dead_letters(queue: QueueSettings) -> dict[str, Any]:
    return {
        "address": queue.dlq,
        "title": "Its dead letters",
        "description": "Filled by the workers and the relay. The RedrivePolicy of the source queue is a backstop for "
        "messages that no worker came to terms with.",
        "messages": {
            "deadLetter": {"$ref": "#/components/messages/deadLetter"},
            "malformed": {"$ref": "#/components/messages/malformed"},
            "movedBySqs": {"$ref": "#/components/messages/wakeUp"},
        },
        "bindings": _bindings(queue.dlq, messageRetentionPeriod=DEAD_LETTER_RETENTION_SECONDS),
    }


def _bindings(name: str, **attributes: Any) -> dict[str, Any]:
    queue = {"name": name, "fifoQueue": name.endswith(".fifo"), **attributes}
    return {"sqs": {"bindingVersion": "0.2.0", "queue": queue}}


def _operations() -> dict[str, Any]:
    return {
        "sendWakeUp": _operation(
            "send",
            "turns",
            ["wakeUp"],
            "API, command line, relay, and workers for children: after the row is committed.",
        ),
        "receiveWakeUp": _operation(
            "receive",
            "turns",
            ["wakeUp", "movedBack"],
            "Workers: deleted after the first settle of the hold; on FIFO after its claim.",
        ),
        "sendDeadLetter": _operation(
            "send",
            "deadLetters",
            ["deadLetter", "malformed"],
            "The relay for FAILED turns, workers for the malformed.",
        ),
        "receiveDeadLetter": _operation(
            "receive",
            "deadLetters",
            ["deadLetter", "malformed", "movedBySqs"],
            "`turnstile dlq list --messages`, `doctor`: look and give back. `redrive`, `doctor --fix`: delete what is outlived.",
        ),
    }


def _operation(action: str, channel: str, messages: list[str], summary: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{channel}"},
        "summary": summary,
        "messages": [{"$ref": f"#/channels/{channel}/messages/{message}"} for message in messages],
    }


def _message(summary: str, attributes: dict[str, Any], example: OutgoingMessage) -> dict[str, Any]:
    return {
        "summary": summary,
        "contentType": "application/json",
        "headers": _headers(list(attributes)),
        "payload": {"$ref": "#/components/schemas/wakeUp"},
        "examples": [
            {
                "headers": {name: attribute["StringValue"] for name, attribute in attributes.items()},
                "payload": json.loads(example.wake_up.encode()),
            }
        ],
    }


def _headers(names: list[str]) -> dict[str, Any]:
    properties = {
        name: {"type": "string", "minLength": 1, "maxLength": MAX_ATTRIBUTE_CHARACTERS, **_ATTRIBUTES[name]}
        for name in names
    }
    return {
        "type": "object",
        "description": "SQS message attributes, each of type String.",
        "required": names,
        "properties": properties,
    }


def _payload() -> dict[str, Any]:
    version = {"const": VERSION, "description": "Of this format. A worker refuses any other."}
    ids = {field.name: {**_TYPES[field.type], "description": _FIELDS[field.name]} for field in fields(WakeUp)}
    properties = {"v": version, **ids}
    return {
        "type": "object",
        "description": f"At most {MAX_BODY_CHARACTERS} characters of JSON. Ids only (G23). Unknown members are ignored.",
        "required": list(properties),
        "properties": properties,
    }


def main() -> None:
    """Prints it."""
    import yaml  # a development dependency

    sys.stdout.write("# Generated: python -m turnstile.ops.asyncapi > docs/asyncapi.yaml\n")
    yaml.safe_dump(document(), sys.stdout, sort_keys=False, allow_unicode=True, width=100)


if __name__ == "__main__":
    main()
