"""docs/asyncapi.yaml describes what the code sends, and what it accepts."""

import json
import math
from typing import Any
from uuid import UUID

import jsonschema_rs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import MalformedMessageError
from turnstile.message_queue import MessageQueues
from turnstile.ops.queues.queues_command import DEAD_LETTER_RETENTION_SECONDS, MAX_RECEIVE_COUNT
from turnstile.turn.envelope import DeadLetter, OutgoingMessage, ReceivedMessage
from turnstile.turn.identifiers import ID_PATTERN, start_trace
from turnstile.turn.wire_format import WakeUp, decode

ids = st.from_regex(ID_PATTERN, fullmatch=True)
DOCUMENT = yaml.safe_load((ROOT / "docs" / "asyncapi.yaml").read_text())
PAYLOAD = jsonschema_rs.validator_for(DOCUMENT["components"]["schemas"]["wakeUp"], validate_formats=True)


def headers(message: str) -> Any:
    return jsonschema_rs.validator_for(DOCUMENT["components"]["messages"][message]["headers"])


def values(attributes: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: attribute["StringValue"] for name, attribute in attributes.items()}


def test_the_queues_have_the_defaults_of_the_settings() -> None:
    queue = QueueSettings(name="turns")
    turns, dead_letters = (DOCUMENT["channels"][name]["bindings"]["sqs"]["queue"] for name in ("turns", "deadLetters"))

    assert turns == {
        "name": queue.sqs,
        "fifoQueue": False,
        "visibilityTimeout": math.ceil(queue.visibility_seconds),
        "receiveMessageWaitTime": Settings.model_fields["receive_wait_seconds"].default,
        "redrivePolicy": {"deadLetterQueue": {"name": queue.dlq}, "maxReceiveCount": MAX_RECEIVE_COUNT},
    }
    assert dead_letters == {
        "name": queue.dlq,
        "fifoQueue": False,
        "messageRetentionPeriod": DEAD_LETTER_RETENTION_SECONDS,
    }


@given(ids, ids, st.uuids())
def test_every_wake_up_fits_the_schema(tenant_id: str, session_id: str, turn_id: UUID) -> None:
    PAYLOAD.validate(json.loads(WakeUp(tenant_id, session_id, turn_id).encode()))


@pytest.mark.parametrize(
    "change",
    [{"v": 2}, {"v": None}, {"tenant_id": ""}, {"session_id": "a b"}, {"session_id": "x" * 129}, {"turn_id": "1"}],
)
def test_the_worker_refuses_what_the_schema_refuses(change: dict[str, Any]) -> None:
    body = json.loads(WakeUp("acme", "alice", UUID(int=7)).encode()) | change

    assert not PAYLOAD.is_valid(body)
    with pytest.raises(MalformedMessageError):
        decode(json.dumps(body))


def test_the_schema_names_exactly_the_members_of_a_wake_up() -> None:
    body = json.loads(WakeUp("acme", "alice", UUID(int=7)).encode())

    assert list(body) == DOCUMENT["components"]["schemas"]["wakeUp"]["required"]
    for name in body:
        assert not PAYLOAD.is_valid({other: value for other, value in body.items() if other != name})


@given(
    ids, st.integers(0, 2**192 - 1), st.booleans(), st.text(min_size=1), st.integers(1, 2**31 - 1),
    st.integers(1, 999_999_999),
)  # fmt: skip
def test_the_attributes_that_are_sent_fit_the_headers(
    queue: str, bits: int, sampled: bool, error_class: str, attempts: int, generation: int
) -> None:
    trace = start_trace(bits).with_decision(sampled=sampled)
    sent = OutgoingMessage(WakeUp("acme", "alice", UUID(int=7)), trace.traceparent)
    letter = DeadLetter(sent, error_class, attempts, fence=2**63 - 1, generation=generation, source_queue=queue)

    headers("wakeUp").validate(values(sent.attributes))
    headers("deadLetter").validate(values(letter.attributes))
    assert list(letter.attributes) == DOCUMENT["components"]["messages"]["deadLetter"]["headers"]["required"]


async def test_the_attributes_of_a_malformed_message_fit_its_headers(settings: Settings, queues: MessageQueues) -> None:
    message = ReceivedMessage("m-1", "nobody understands this", "handle", 1, {"its": "own"}, False)
    with pytest.raises(MalformedMessageError) as refused:
        decode(message.body)

    await queues.dead_letter_malformed(settings.queue, message, str(refused.value))

    [dead] = await queues.receive(settings.queue, 1, dead=True)
    described = DOCUMENT["components"]["messages"]["malformed"]["headers"]["properties"]
    headers("malformed").validate(dead.attributes)
    assert dead.attributes.keys() == {"its", *described}
    assert not headers("malformed").is_valid({"turnstile.reason": "ProviderRejected"}), "no class of an error"


def test_a_malformed_message_may_have_no_attributes() -> None:
    """Beside the largest body none has room."""
    headers("malformed").validate({})


def test_every_reference_resolves() -> None:
    def follow(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                target: Any = DOCUMENT
                for step in node["$ref"].removeprefix("#/").split("/"):
                    target = target[step]
            for child in node.values():
                follow(child)
        elif isinstance(node, list):
            for child in node:
                follow(child)

    follow(DOCUMENT)


def test_both_queues_are_sent_to_and_received_from() -> None:
    found = {(each["action"], each["channel"]["$ref"]) for each in DOCUMENT["operations"].values()}

    assert found == {
        (action, f"#/channels/{channel}") for action in ("send", "receive") for channel in ("turns", "deadLetters")
    }


def test_the_examples_are_valid() -> None:
    for name in ("wakeUp", "deadLetter"):
        [example] = DOCUMENT["components"]["messages"][name]["examples"]
        PAYLOAD.validate(example["payload"])
        headers(name).validate(example["headers"])
