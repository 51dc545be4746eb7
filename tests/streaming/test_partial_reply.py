"""What a running attempt has said so far: what a reader of its stream has, and where it reads on."""

import json
from typing import Any

import pytest

from turnstile.streaming.event import EventId, EventKind, Saying, TurnEvent
from turnstile.streaming.partial_reply import UNKNOWN, PartialReply, fold_events

RUNNING = EventKind.STATUS, {"status": "RUNNING", "attempt": 1}


def delta(text: str) -> tuple[EventKind, Any]:
    return EventKind.DELTA, {"text": text}


def events(*said: tuple[EventKind, Any], fence: int = 7, first: int = 1) -> list[TurnEvent]:
    return [
        TurnEvent(EventId(fence, first + place), Saying(kind, json.dumps(data)))
        for place, (kind, data) in enumerate(said)
    ]


def test_it_has_the_text_the_other_events_and_the_last_id() -> None:
    said = events(RUNNING, delta("Hel"), (EventKind.CUSTOM, {"sources": [1]}), delta("lo"))

    assert fold_events(said) == PartialReply("Hello", ({"sources": [1]},), EventId(7, 4))


def test_an_attempt_that_has_said_nothing_has_an_empty_text() -> None:
    assert fold_events(events(RUNNING)) == PartialReply("", (), EventId(7, 1))


def test_a_stream_without_events_is_read_from_the_start() -> None:
    assert fold_events([]) == PartialReply("", (), None)


def test_a_new_attempt_begins_with_nothing() -> None:
    before = events(RUNNING, delta("Wrong"), (EventKind.CUSTOM, 1), (EventKind.STATUS, {"status": "PENDING"}))

    found = fold_events([*before, *events(RUNNING, delta("Right"), fence=8)])

    assert found == PartialReply("Right", (), EventId(8, 2))


def test_a_reset_replaces_the_text_and_leaves_the_other_events() -> None:
    said = events(RUNNING, (EventKind.CUSTOM, 1), delta("lost"))
    again = events((EventKind.RESET, {"text": "whole "}), delta("text"), first=9)

    assert fold_events([*said, *again]) == PartialReply("whole text", (1,), EventId(7, 10))


@pytest.mark.parametrize("kind", [EventKind.END, EventKind.ERROR])
def test_the_end_is_left_to_the_stream(kind: EventKind) -> None:
    said = events(RUNNING, delta("all"), (kind, {"status": "SUCCEEDED", "said": True}))

    assert fold_events(said) == PartialReply("all", (), EventId(7, 2))


@pytest.mark.parametrize(
    "said",
    [
        events(delta("the start is missing"), first=2),
        events(RUNNING) + events(delta("a gap is before it"), first=3),
        events(RUNNING) + events(delta("of an attempt whose start is missing"), first=2, fence=8),
    ],
)
def test_a_text_with_a_gap_is_unknown(said: list[TurnEvent]) -> None:
    assert fold_events(said) == UNKNOWN


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (EventKind.DELTA, "no JSON"),
        (EventKind.DELTA, "[]"),
        (EventKind.DELTA, "{}"),
        (EventKind.RESET, '{"text": 1}'),
        (EventKind.CUSTOM, "{"),
    ],
)
def test_an_event_that_no_worker_writes_makes_it_unknown(kind: EventKind, data: str) -> None:
    assert fold_events([*events(RUNNING), TurnEvent(EventId(7, 2), Saying(kind, data))]) == UNKNOWN


def test_an_event_of_a_newer_worker_takes_only_its_place() -> None:
    said = [*events(RUNNING, delta("a")), TurnEvent(EventId(7, 3), Saying.read("new kind", "{}"))]

    assert fold_events([*said, *events(delta("b"), first=4)]) == PartialReply("ab", (), EventId(7, 4))
