"""I17: a stream that a reader did not get whole, once and in order is convicted."""

from typing import Any

import pytest

from tests.chaos.checker import check
from tests.chaos.checker.evidence import Evidence, StreamRead
from tests.unit.checker.conviction import amend, answered, assert_convicts

EVENTS: list[dict[str, Any]] = [
    {"id": "1", "event": "delta", "data": "he", "attempt": 1},
    {"id": "2", "event": "delta", "data": "llo", "attempt": 1},
    {"id": "3", "event": "succeeded", "data": None, "attempt": 1},
]


def streamed(*reads: StreamRead) -> Evidence:
    scene = answered()
    scene.evidence.streams += reads
    return scene.rest()


def reader(name: str, *places: int, after: str | None = None, complete: bool = True) -> StreamRead:
    return StreamRead(
        reader=name, turn_id="a", after=after, events=[EVENTS[place] for place in places], complete=complete
    )


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (reader("r", 0, 2), "ids that do not rise by one"),
        (reader("r", 0, 1, 1, 2), "ids that do not rise by one"),
        (reader("r", 0, 1), "0 terminal events in a stream that has ended"),
        (reader("r", 0, 1, 2, 2), "2 terminal events"),
        (reader("r", 2, after="1"), "ids that do not rise by one"),
    ],
)
def test_i17_a_stream_with_a_fault(read: StreamRead, words: str) -> None:
    assert_convicts(streamed(read), "I17", words)


def test_i17_a_resumed_stream_that_is_not_the_rest_of_the_first() -> None:
    assert_convicts(streamed(reader("full", 0, 1, 2), reader("r", 2, after="1")), "I17", "where the stream had")


def test_i17_deltas_that_do_not_make_the_reply() -> None:
    evidence = streamed(reader("full", 0, 1, 2))
    amend(evidence.messages, lambda said: said.role == "assistant", content="hullo")

    assert_convicts(evidence, "I17", "deltas that make 'hello', and the reply is 'hullo'")


def test_i17_only_the_deltas_of_the_last_attempt_count() -> None:
    first = {"id": "1", "event": "delta", "data": "hel", "attempt": 1}
    events = [first, *({**event, "id": str(at), "attempt": 2} for at, event in enumerate(EVENTS, start=2))]
    evidence = streamed(StreamRead(reader="full", turn_id="a", after=None, events=events, complete=True))
    amend(evidence.messages, lambda said: said.role == "assistant", content="hello")

    assert check(evidence) == []
