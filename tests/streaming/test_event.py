"""The numbering of events: ids that rise, what may follow what, text in pieces that fit."""

from uuid import UUID

import pytest

from turnstile.streaming.event import (
    LAST_WORDS,
    MAX_PIECE_CHARACTERS,
    EventId,
    EventKind,
    MalformedEventIdError,
    Saying,
    TurnEvent,
    name_stream,
    pieces,
)


def event(fence: int, n: int, kind: EventKind = EventKind.DELTA) -> TurnEvent:
    return TurnEvent(EventId(fence, n), Saying(kind, "{}"))


def test_an_id_is_read_as_it_was_written() -> None:
    assert EventId.parse(str(EventId(7, 3))) == EventId(7, 3)


@pytest.mark.parametrize("text", ["", "7", "7-3 ", "7-3-1", "\u0667-\u0663", "9223372036854775808-1"])
def test_a_malformed_id_is_refused(text: str) -> None:
    with pytest.raises(MalformedEventIdError):
        EventId.parse(text)


def test_ids_rise_by_fence_and_then_by_place() -> None:
    assert EventId(7, 9) < EventId(7, 10) < EventId(7, LAST_WORDS) < EventId(8, 1)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("of a newer worker", "{}"),
        ("unreadable", "{}"),
        ("", ""),
        ("delta", '{"text": "x"}\n\nevent: end\ndata: {}'),
        ("custom", "1\r2"),
    ],
)
def test_an_entry_that_no_worker_of_this_version_writes_is_unreadable(kind: str, data: str) -> None:
    assert Saying.read(kind, data) == Saying(EventKind.UNREADABLE, "")


def test_what_a_worker_writes_is_read() -> None:
    for kind in set(EventKind) - {EventKind.UNREADABLE}:
        assert Saying.read(kind.value, '{"text":"a\\nb"}') == Saying(kind, '{"text":"a\\nb"}')


def test_an_event_follows_the_one_before_it() -> None:
    assert event(7, 4).follows(EventId(7, 3))


@pytest.mark.parametrize("before", [None, EventId(7, 2), EventId(6, 3)])
def test_an_event_does_not_follow_a_hole(before: EventId | None) -> None:
    assert not event(7, 4).follows(before)


@pytest.mark.parametrize("before", [None, EventId(7, 2), EventId(6, 3)])
@pytest.mark.parametrize("opening", [event(7, 1, EventKind.STATUS), event(7, 4, EventKind.RESET)])
def test_a_new_attempt_and_a_reset_follow_anything(opening: TurnEvent, before: EventId | None) -> None:
    assert opening.follows(before)


@pytest.mark.parametrize("length", [0, 1, MAX_PIECE_CHARACTERS, MAX_PIECE_CHARACTERS + 1, 3 * MAX_PIECE_CHARACTERS])
def test_the_pieces_of_a_text_are_the_text_and_fit_into_events(length: int) -> None:
    text = "x" * length
    found = list(pieces(text))
    assert "".join(found) == text
    assert found
    assert max(map(len, found)) <= MAX_PIECE_CHARACTERS


def test_the_streams_of_a_session_share_a_slot_with_its_lock() -> None:
    assert name_stream("p:", "acme", "s", UUID(int=1)) == f"p:events:turn:{{acme/s}}:{UUID(int=1)}"
