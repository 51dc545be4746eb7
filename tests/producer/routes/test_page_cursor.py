"""Cursors come back as they went, and nothing else is one."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.producer.routes.page_cursor import decode, decode_message, encode, encode_message

CURSOR = encode(datetime(2026, 11, 21, tzinfo=UTC), UUID(int=7))


@given(st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC)), st.uuids())  # noqa: DTZ001
def test_a_cursor_finds_its_place_again(created_at: datetime, turn_id: UUID) -> None:
    assert decode(encode(created_at, turn_id)) == (created_at, turn_id)


@given(st.text(max_size=40) | st.from_regex(r"1[A-Za-z0-9_-]{32}", fullmatch=True))
def test_there_is_one_spelling_of_each(text: str) -> None:
    try:
        place = decode(text)
    except ValueError:
        return
    assert encode(*place) == text


@pytest.mark.parametrize(
    "text", ["", "1", CURSOR + "\n", CURSOR + "=", CURSOR[1:], "2" + CURSOR[1:], " " + CURSOR, "é" * 33]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cursor"):
        decode(text)


@given(st.integers(0, 2**62 - 1), st.integers(0, 2**31 - 1))
def test_a_cursor_of_messages_finds_its_place_again(seq: int, ordinal: int) -> None:
    assert decode_message(encode_message(seq, ordinal)) == (seq, ordinal)


@given(st.text(max_size=20) | st.from_regex(r"2[A-Za-z0-9_-]{16}", fullmatch=True))
def test_there_is_one_spelling_of_each_of_messages(text: str) -> None:
    try:
        place = decode_message(text)
    except ValueError:
        return
    assert encode_message(*place) == text
