"""Ids that look as if they named a person, and ids that do not."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.turn.identifiers import is_valid_id
from turnstile.turn.personal_id import is_personal


@pytest.mark.parametrize(
    "text",
    [
        "4915112345678",
        "0049-151-1234567",
        "555.123.4567",
        "030:1234:5678",
        "tel:4915112345678",
        "WhatsApp-4915112345678",
        "wa4915112345678",
        "anna.smith_at_example.com",
        "anna-at-mail.example.co",
        "ANNA.AT.EXAMPLE.COM",
    ],
)
def test_what_looks_like_a_phone_number_or_an_address(text: str) -> None:
    assert is_valid_id(text), "only such ids reach the rule"
    assert is_personal(text)


@pytest.mark.parametrize(
    "text",
    [
        "chat-1",
        "12345678",
        "2026-11-29",
        "1234567890123456",
        "chat-4915112345678",
        "what-was-said-at-noon",
        "at.example.com",
        "chat_at_noon",
        str(UUID(int=12345678901234567890)),
        "compensation:00000000-0000-0000-0000-000000000001",
    ],
)
def test_what_does_not(text: str) -> None:
    assert not is_personal(text)


@given(st.uuids())
def test_no_uuid_looks_personal(number: UUID) -> None:
    assert not is_personal(str(number))
    assert not is_personal(str(uuid4()))
