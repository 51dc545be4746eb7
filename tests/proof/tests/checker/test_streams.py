"""I17: a reader who was not told a turn whole, once and in order, or not as it was, is convicted."""

import json
from typing import Any

import pytest

from tests.proof.checker import check
from tests.proof.checker.evidence import Evidence, StreamRead
from tests.proof.tests.checker.conviction import answered, assert_convicts

FENCE = 1
REPLY: dict[str, Any] = {"turn": "a", "fence": FENCE}


def event(place: str | None, kind: str, **data: Any) -> dict[str, Any]:
    return {"id": place, "event": kind, "data": json.dumps(data)}


METADATA = event(None, "metadata", status="PENDING")
BEGUN = event("1-1", "status", status="RUNNING", attempt=1)
WORDS = event("1-2", "delta", text="1.0 1.1 ")
MORE = event("1-3", "delta", text="1.2 ")
RESET = event("1-7", "reset", text="1.0 1.1 1.2 1.3 ", attempt=1)
END = event("1-4", "end", status="SUCCEEDED", output=REPLY)
LATE_END = event(f"1-{10**15 + 1}", "end", status="SUCCEEDED", output=REPLY)
ALL = [METADATA, BEGUN, WORDS, MORE, END]


def told(*connections: list[dict[str, Any]]) -> Evidence:
    """One reader was told these events, connection by connection."""
    scene = answered()
    for events in connections:
        scene.evidence.streams.append(
            StreamRead(reader="r", turn_id="a", after=None, events=events, complete=events is connections[-1])
        )
    return scene.rest()


@pytest.mark.parametrize(
    "connections",
    [
        [ALL],
        [[METADATA, BEGUN, WORDS], [METADATA, MORE, END]],
        [[METADATA, BEGUN, WORDS], [METADATA, RESET, event("1-8", "end", status="SUCCEEDED", output=REPLY)]],
        [[METADATA, BEGUN, WORDS], [], [METADATA, LATE_END]],
        [[METADATA, RESET], [METADATA, LATE_END]],
    ],
    ids=["at once", "in two parts", "with a reset", "from the table at the end", "from the middle"],
)
def test_i17_a_turn_that_was_told_as_it_was(connections: list[list[dict[str, Any]]]) -> None:
    assert check(told(*connections)) == []


def test_i17_only_the_words_of_the_last_attempt_count() -> None:
    abandoned = [METADATA, event("0-1", "status", status="RUNNING", attempt=1), event("0-2", "delta", text="0.0 ")]

    assert check(told([*abandoned, *ALL[1:]])) == []


@pytest.mark.parametrize(
    ("connections", "words"),
    [
        ([[BEGUN, WORDS, MORE, END]], "before which turn it is"),
        ([[METADATA, BEGUN, event(None, "delta", text="1.0 ")]], "without an id"),
        ([[METADATA, BEGUN, MORE, END]], "a gap"),
        ([[METADATA, WORDS, MORE, END]], "a gap"),
        ([[METADATA, BEGUN, WORDS], [METADATA, END]], "a gap"),
        ([[METADATA, BEGUN, WORDS], [METADATA, WORDS, MORE, END]], "ids that do not rise"),
        ([[*ALL, event("1-5", "delta", text="1.3 ")]], "after the end"),
        ([ALL, [METADATA, LATE_END]], "after the end"),
        ([[METADATA, BEGUN, event("1-2", "delta", text="1.0 1.0 ")]], "the text '1.0 1.0 '"),
        ([[METADATA, BEGUN, WORDS, event("2-2", "delta", text="2.0 ")]], "the text '1.0 1.1 2.0 '"),
        ([[METADATA, BEGUN, event("1-2", "end", status="CANCELED")]], "the end CANCELED, and it is SUCCEEDED"),
        ([[METADATA, BEGUN, event("1-2", "error", status="FAILED")]], "FAILED, which it never did"),
        ([[METADATA, BEGUN, event("1-2", "end", status="SUCCEEDED", output="?")]], "was told the output '?'"),
    ],
)
def test_i17_a_turn_that_was_told_otherwise(connections: list[list[dict[str, Any]]], words: str) -> None:
    assert_convicts(told(*connections), "I17", words)


def test_i17_a_reader_that_begins_in_the_middle_and_misses_something() -> None:
    scene = answered()
    scene.evidence.streams.append(
        StreamRead(reader="r", turn_id="a", after="1-1", events=[METADATA, MORE, END], complete=True)
    )

    assert_convicts(scene.rest(), "I17", "delta (1, 3) after (1, 1): a gap")
