"""Cursors come back as they went, and every text that a pattern accepts is one."""

import re
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.producer.routes.page_cursor import (
    MESSAGE_PATTERN,
    TURN_PATTERN,
    decode_message,
    decode_turn,
    encode_message,
    encode_turn,
)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC)), st.uuids())  # noqa: DTZ001
def test_a_turns_cursor_has_its_place(created_at: datetime, turn_id: UUID) -> None:
    assert decode_turn(encode_turn(created_at, turn_id)) == (created_at, turn_id)


@given(st.integers(0, 10**18 - 1), st.integers(0, 10**9 - 1))
def test_a_messages_cursor_has_its_place(seq: int, ordinal: int) -> None:
    assert decode_message(encode_message(seq, ordinal)) == (seq, ordinal)


@pytest.mark.parametrize("digit", ["0", "9"])
def test_postgres_accepts_the_place_of_every_text_that_matches(digit: str) -> None:
    turn, message = f"{digit * 16}.{digit * 32}", f"{digit * 18}.{digit * 9}"
    assert re.match(TURN_PATTERN, turn)
    assert re.match(MESSAGE_PATTERN, message)

    created_at, _ = decode_turn(turn)
    seq, ordinal = decode_message(message)

    assert created_at.year < 2300
    assert seq < 2**63
    assert ordinal < 2**31
