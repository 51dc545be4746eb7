"""What a client of AG-UI is told for each event of a turn."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from ag_ui.core import Event
from hypothesis import given
from pydantic import TypeAdapter

from tests.support.told_turns import SESSION, TURN, Course, courses, tell
from tests.support.wire_readers import frames
from turnstile.streaming.event import EventId, EventKind
from turnstile.streaming.wires.ag_ui import AgUiEncoder
from turnstile.streaming.wires.sse import SseEvent
from turnstile.streaming.wires.wire import Telling, Wire
from turnstile.turn.conversation import Message
from turnstile.turn.stored_json import encode

OFFICIAL: TypeAdapter[Any] = TypeAdapter(Event)
METADATA = SseEvent(EventKind.METADATA, encode({"turn_id": TURN, "session_id": SESSION}))
RUNNING = (EventKind.STATUS, {"status": "RUNNING", "attempt": 1})
SAID = [
    Message(turn_id=UUID(int=1), seq=1, ordinal=0, role="user", content="hi", created_at=datetime.now(UTC)),
    Message(turn_id=UUID(int=1), seq=1, ordinal=1, role="assistant", content={"k": 1}, created_at=datetime.now(UTC)),
    Message(turn_id=UUID(TURN), seq=2, ordinal=0, role="user", content="more", created_at=datetime.now(UTC)),
]
SNAPSHOT = {
    "type": "MESSAGES_SNAPSHOT",
    "messages": [
        {"id": f"{UUID(int=1)}:user", "role": "user", "content": "hi"},
        {"id": f"{UUID(int=1)}", "role": "assistant", "content": '{"k":1}'},
        {"id": f"{TURN}:user", "role": "user", "content": "more"},
    ],
}


def told(*events: tuple[EventKind, Any], joins: bool = False, seen: EventId | None = None) -> list[Any]:
    """The chunks for these events of attempt 7."""
    encoder = AgUiEncoder(joins=joins, seen=seen)
    telling = Telling(encoder, seen=seen)

    def sent() -> Iterator[bytes]:
        numbered = [SseEvent(kind, encode(data), EventId(7, n)) for n, (kind, data) in enumerate(events, start=1)]
        for event in (METADATA, *numbered):
            if encoder.needs_conversation(event):
                encoder.learn_conversation(SAID)
            yield telling.tell(event)

    return [json.loads(frame.data) for frame in frames(b"".join(sent()))]


@given(course=courses())
def test_every_event_is_one_of_the_protocol(course: Course) -> None:
    for frame in tell(Wire.AG_UI, course, joins=True):
        read = OFFICIAL.validate_json(frame.data)
        # What the official encoder would write, so that no field is misspelt.
        assert json.loads(read.model_dump_json(by_alias=True)).keys() <= json.loads(frame.data).keys()


def test_a_text_and_its_end() -> None:
    end = {"turn_id": TURN, "status": "SUCCEEDED", "output": "Hello!"}
    hel, lo = {"text": "Hel"}, {"text": "lo!"}

    assert told(RUNNING, (EventKind.DELTA, hel), (EventKind.DELTA, lo), (EventKind.END, end)) == [
        {"type": "RUN_STARTED", "threadId": SESSION, "runId": TURN},
        {"type": "CUSTOM", "name": "turnstile.status", "value": RUNNING[1]},
        {"type": "TEXT_MESSAGE_START", "messageId": TURN, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": TURN, "delta": "Hel"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": TURN, "delta": "lo!"},
        {"type": "TEXT_MESSAGE_END", "messageId": TURN},
        {
            "type": "RUN_FINISHED",
            "threadId": SESSION,
            "runId": TURN,
            "result": "Hello!",
            "outcome": {"type": "success"},
        },
    ]


def test_a_new_attempt_is_a_snapshot_of_the_conversation_before_it() -> None:
    again = (EventKind.STATUS, {"status": "RUNNING", "attempt": 2})

    assert told(RUNNING, (EventKind.DELTA, {"text": "Wrong"}), again, (EventKind.DELTA, {"text": "Right"}))[4:] == [
        {"type": "TEXT_MESSAGE_END", "messageId": TURN},
        SNAPSHOT,
        {"type": "CUSTOM", "name": "turnstile.status", "value": again[1]},
        {"type": "TEXT_MESSAGE_START", "messageId": TURN, "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": TURN, "delta": "Right"},
    ]


def test_a_reset_tells_tool_calls_again_and_no_other_event() -> None:
    call = {"type": "tool-call", "id": "c", "name": "search", "input": {"q": "x"}}
    result = {"type": "tool-result", "id": "c", "output": ["y"]}
    own = [(EventKind.CUSTOM, one) for one in (call, result, {"mine": 1})]
    of_calls = [
        {"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "search", "parentMessageId": TURN},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": '{"q":"x"}'},
        {"type": "TOOL_CALL_END", "toolCallId": "c"},
        {"type": "TOOL_CALL_RESULT", "messageId": "c:result", "toolCallId": "c", "content": '["y"]', "role": "tool"},
    ]

    assert told(*own, (EventKind.RESET, {"text": "All"}))[1:] == [
        *of_calls,
        {"type": "CUSTOM", "name": "custom", "value": {"mine": 1}},
        SNAPSHOT,
        *of_calls,
        {"type": "TEXT_MESSAGE_START", "messageId": f"{TURN}:2", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": f"{TURN}:2", "delta": "All"},
    ]


def test_a_tool_call_belongs_to_the_text_before_it() -> None:
    call = (EventKind.CUSTOM, {"type": "tool-call", "id": "c", "name": "search"})

    chunks = told((EventKind.DELTA, {"text": "a"}), call, (EventKind.DELTA, {"text": "b"}))

    assert [chunk["messageId"] for chunk in chunks if chunk["type"] == "TEXT_MESSAGE_START"] == [TURN, f"{TURN}:2"]
    assert [chunk["parentMessageId"] for chunk in chunks if chunk["type"] == "TOOL_CALL_START"] == [TURN]


def test_reasoning_is_a_message_of_its_own() -> None:
    thought = (EventKind.CUSTOM, {"type": "reasoning", "text": "hm"})
    own = f"{TURN}:reasoning:7-1"

    assert told(thought, thought, (EventKind.DELTA, {"text": "a"}))[1:7] == [
        {"type": "REASONING_START", "messageId": own},
        {"type": "REASONING_MESSAGE_START", "messageId": own, "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": own, "delta": "hm"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": own, "delta": "hm"},
        {"type": "REASONING_MESSAGE_END", "messageId": own},
        {"type": "REASONING_END", "messageId": own},
    ]


def test_a_client_that_resumes_begins_with_a_snapshot_and_gets_no_own_event_twice() -> None:
    own = [(EventKind.CUSTOM, {"mine": n}) for n in (1, 2)]

    assert told(RUNNING, *own, joins=True, seen=EventId(7, 2)) == [
        {"type": "RUN_STARTED", "threadId": SESSION, "runId": TURN},
        SNAPSHOT,
        {"type": "CUSTOM", "name": "turnstile.status", "value": RUNNING[1]},
        {"type": "CUSTOM", "name": "custom", "value": {"mine": 2}},
    ]


@pytest.mark.parametrize(
    ("own", "told_as"),
    [
        ({"type": "data", "name": "sources", "data": [1]}, {"name": "sources", "value": [1]}),
        (
            {"type": "data", "name": "sources", "data": [1], "id": "s"},
            {"name": "sources", "value": {"id": "s", "data": [1]}},
        ),
        (5, {"name": "custom", "value": 5}),
    ],
)
def test_other_events_are_custom(own: Any, told_as: dict[str, Any]) -> None:
    assert told((EventKind.CUSTOM, own))[1:] == [{"type": "CUSTOM", **told_as}]


def test_failed_and_canceled_turns_end_with_an_error_that_says_which() -> None:
    error = {"turn_id": TURN, "status": "FAILED", "error": {"class": "Reject", "message": "no such model"}}
    canceled = {"turn_id": TURN, "status": "CANCELED", "reason": "user"}

    assert told((EventKind.ERROR, error))[-1] == {"type": "RUN_ERROR", "message": "no such model", "code": "Reject"}
    assert told((EventKind.END, canceled))[-1] == {
        "type": "RUN_ERROR",
        "message": "canceled (user)",
        "code": "canceled",
    }
