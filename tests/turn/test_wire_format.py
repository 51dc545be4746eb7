"""The wire format of messages: what is accepted, and what is refused."""

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.errors import MalformedMessageError
from turnstile.turn.identifiers import is_valid_id
from turnstile.turn.wire_format import MAX_BODY_CHARACTERS, WakeUp, decode

TURN = "018f0000-0000-7000-8000-000000000001"
GOOD = {"v": 1, "tenant_id": "t", "session_id": "s", "turn_id": TURN}


@pytest.mark.parametrize(
    "wake_up",
    [
        WakeUp("t", "s", UUID(TURN)),
        WakeUp("t" * 128, "s" * 128, UUID(int=2**128 - 1)),
        WakeUp("A.b_c:d-9", "-", UUID(int=0)),
    ],
    ids=["short", "longest", "all characters"],
)
def test_an_encoded_message_is_decoded_unchanged(wake_up: WakeUp) -> None:
    assert decode(wake_up.encode()) == wake_up


def test_the_body_has_only_the_version_and_ids() -> None:
    assert json.loads(WakeUp("t", "s", UUID(TURN)).encode()) == GOOD


def test_a_field_that_a_later_version_may_add_is_ignored() -> None:
    assert decode(json.dumps({**GOOD, "later": True})) == WakeUp("t", "s", UUID(TURN))


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ('{"v": 1,', "body"),
        ("[" * 1000, "body"),
        (json.dumps({**GOOD, "later": "x" * MAX_BODY_CHARACTERS}), "body"),
        ("[]", "body"),
        ("{}", "v"),
        (json.dumps({**GOOD, "v": 2}), "v"),
        (json.dumps({**GOOD, "v": True}), "v"),
        (json.dumps({**GOOD, "tenant_id": None}), "tenant_id"),
        (json.dumps({**GOOD, "tenant_id": ""}), "tenant_id"),
        (json.dumps({**GOOD, "tenant_id": "t" * 129}), "tenant_id"),
        (json.dumps({**GOOD, "session_id": "s\n"}), "session_id"),
        (json.dumps({**GOOD, "session_id": "é"}), "session_id"),
        (json.dumps({**GOOD, "session_id": ".."}), "session_id"),
        (json.dumps({"v": 1, "tenant_id": "t", "session_id": "s"}), "turn_id"),
        (json.dumps({**GOOD, "turn_id": "x" * 36}), "turn_id"),
    ],
)
def test_a_malformed_body_is_refused_and_the_reason_names_the_place(body: str, place: str) -> None:
    with pytest.raises(MalformedMessageError, match=f"^{place}\\b"):
        decode(body)


def test_a_reason_quotes_nothing() -> None:
    with pytest.raises(MalformedMessageError) as refused:
        decode(json.dumps({**GOOD, "session_id": "the secret"}))

    assert "secret" not in str(refused.value)


@settings(max_examples=50)
@given(st.text(st.characters(), max_size=200) | st.recursive(st.none() | st.text(max_size=5), st.lists).map(json.dumps))
def test_every_other_text_is_malformed_and_raises_nothing_else(body: str) -> None:
    with pytest.raises(MalformedMessageError):
        decode(body)


@pytest.mark.parametrize("text", ["", "x" * 129, "a/b", "a\n", "ä", "{a}", ".", "..", ".a"])
def test_an_invalid_id_is_recognised(text: str) -> None:
    assert not is_valid_id(text)


@pytest.mark.parametrize("text", ["a", "x" * 128, "a.", "a..b", "_", ":", "-"])
def test_a_valid_id_is_recognised(text: str) -> None:
    assert is_valid_id(text)
