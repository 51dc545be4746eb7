"""What a client of the AI SDK is told for each event of a turn."""

import json
from typing import Any

from tests.support.told_turns import SESSION, TURN
from tests.support.wire_readers import frames
from turnstile.streaming.event import EventId, EventKind
from turnstile.streaming.wires.kept_events import MAX_KEPT_BYTES
from turnstile.streaming.wires.sse import SseEvent
from turnstile.streaming.wires.wire import Telling, Wire, encoder_of
from turnstile.turn.stored_json import encode

RUNNING = (EventKind.STATUS, {"status": "RUNNING", "attempt": 1})


def told(*events: tuple[EventKind, Any], joins: bool = False) -> list[Any]:
    """The chunks for these events of attempt 7, after those of the beginning."""
    telling = Telling(encoder_of(Wire.AI_SDK, joins=joins, seen=None), seen=None)
    telling.tell(SseEvent(EventKind.METADATA, encode({"turn_id": TURN, "session_id": SESSION})))
    sent = b"".join(
        telling.tell(SseEvent(kind, encode(data), EventId(7, n))) for n, (kind, data) in enumerate(events, start=1)
    )
    return [frame.data if frame.data == "[DONE]" else json.loads(frame.data) for frame in frames(sent)]


def test_a_turn_is_a_message_with_its_id() -> None:
    telling = Telling(encoder_of(Wire.AI_SDK, joins=False, seen=None), seen=None)
    about = {"turn_id": TURN, "session_id": SESSION, "status": "PENDING", "attempt": 0}

    sent = telling.tell(SseEvent(EventKind.METADATA, encode(about)))

    assert [json.loads(frame.data) for frame in frames(sent)] == [
        {"type": "start", "messageId": TURN, "messageMetadata": {"turnstile": about}},
        {"type": "start-step"},
    ]


def test_a_text_and_its_end() -> None:
    end = {"turn_id": TURN, "status": "SUCCEEDED", "output": "Hello!"}
    hel, lo = {"text": "Hel"}, {"text": "lo!"}

    assert told(RUNNING, (EventKind.DELTA, hel), (EventKind.DELTA, lo), (EventKind.END, end)) == [
        {"type": "message-metadata", "messageMetadata": {"turnstile": RUNNING[1]}},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "Hel"},
        {"type": "text-delta", "id": "1", "delta": "lo!"},
        {"type": "text-end", "id": "1"},
        {"type": "finish-step"},
        {
            "type": "finish",
            "finishReason": "stop",
            "messageMetadata": {"turnstile": {"turn_id": TURN, "status": "SUCCEEDED"}},
        },
        "[DONE]",
    ]


def test_a_new_attempt_takes_back_what_was_said() -> None:
    again = (EventKind.STATUS, {"status": "RUNNING", "attempt": 2})

    assert told(RUNNING, (EventKind.DELTA, {"text": "Wrong"}), again, (EventKind.DELTA, {"text": "Right"}))[3:] == [
        {"type": "reset-step"},
        {"type": "message-metadata", "messageMetadata": {"turnstile": again[1]}},
        {"type": "text-start", "id": "2"},
        {"type": "text-delta", "id": "2", "delta": "Right"},
    ]


def test_a_reset_tells_the_handlers_own_events_again() -> None:
    call = {"type": "tool-call", "id": "c", "name": "search", "input": {"q": "x"}}
    result = {"type": "tool-result", "id": "c", "output": ["y"]}
    sources = {"type": "data", "name": "sources", "data": [1], "id": "s"}
    own = [(EventKind.CUSTOM, one) for one in (call, result, sources)]
    of_own = [
        {
            "type": "tool-input-available",
            "toolCallId": "c",
            "toolName": "search",
            "input": {"q": "x"},
            "dynamic": True,
            "providerExecuted": True,
        },
        {
            "type": "tool-output-available",
            "toolCallId": "c",
            "output": ["y"],
            "dynamic": True,
            "providerExecuted": True,
        },
        {"type": "data-sources", "id": "s", "data": [1]},
    ]

    assert told(*own, (EventKind.RESET, {"text": "All"})) == [
        *of_own,
        {"type": "reset-step"},
        *of_own,
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "All"},
    ]


def test_a_reset_tells_no_own_events_again_if_they_are_too_many() -> None:
    large = (EventKind.CUSTOM, ["x" * (MAX_KEPT_BYTES // 2)])

    again = told(large, large, (EventKind.RESET, {"text": "All"}))[2:]

    assert [chunk["type"] for chunk in again] == ["reset-step", "text-start", "text-delta"]


def test_reasoning_stands_between_texts() -> None:
    thought = (EventKind.CUSTOM, {"type": "reasoning", "text": "hm"})
    text = (EventKind.DELTA, {"text": "a"})

    chunks = told(text, thought, thought, text)

    assert [(chunk["type"], chunk["id"]) for chunk in chunks] == [
        ("text-start", "1"),
        ("text-delta", "1"),
        ("text-end", "1"),
        ("reasoning-start", "2"),
        ("reasoning-delta", "2"),
        ("reasoning-delta", "2"),
        ("reasoning-end", "2"),
        ("text-start", "3"),
        ("text-delta", "3"),
    ]


def test_a_result_whose_call_is_unknown_is_data() -> None:
    lost = {"type": "tool-result", "id": "c", "output": 1}

    assert told((EventKind.CUSTOM, lost)) == [{"type": "data-custom", "data": lost}]


def test_an_output_that_is_no_text_is_data() -> None:
    end = {"turn_id": TURN, "status": "SUCCEEDED", "output": {"k": 1}}

    assert told((EventKind.END, end))[0] == {"type": "data-output", "id": "output", "data": {"k": 1}}


def test_a_failed_turn_ends_with_an_error() -> None:
    error = {"turn_id": TURN, "status": "FAILED", "error": {"class": "Reject", "message": "no such model"}}
    unnamed = {**error, "error": {"class": "ValueError", "message": None}}

    assert told((EventKind.ERROR, error))[-2:] == [{"type": "error", "errorText": "no such model"}, "[DONE]"]
    assert told((EventKind.ERROR, unnamed))[-2]["errorText"] == "the turn has failed (ValueError)"


def test_a_canceled_turn_ends_with_an_abort() -> None:
    end = {"turn_id": TURN, "status": "CANCELED", "reason": "user"}

    assert told((EventKind.END, end))[-2:] == [{"type": "abort", "reason": "user"}, "[DONE]"]


def test_a_client_that_may_have_something_begins_with_a_reset() -> None:
    telling = Telling(encoder_of(Wire.AI_SDK, joins=True, seen=None), seen=None)

    sent = telling.tell(SseEvent(EventKind.METADATA, encode({"turn_id": TURN})))

    assert [json.loads(frame.data)["type"] for frame in frames(sent)] == ["start", "reset-step"]


def test_events_that_no_worker_writes_end_no_stream() -> None:
    telling = Telling(encoder_of(Wire.AI_SDK, joins=False, seen=None), seen=None)

    for data in ("[]", "not JSON", '{"text": 1}', "[" * 100_000, '{"text": "\\ud800"}', "NaN"):
        for kind in set(EventKind) - {EventKind.END, EventKind.ERROR}:
            telling.tell(SseEvent(kind, data, EventId(7, 1)))
