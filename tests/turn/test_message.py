"""The wire format: what is written can be read, and nothing else can."""

import json
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstile.errors import MalformedMessageError
from turnstile.turn.message import ID_PATTERN, MAX_BODY_CHARACTERS, WakeUp, decode, is_valid_id

ids = st.from_regex(ID_PATTERN, fullmatch=True)
wake_ups = st.builds(WakeUp, ids, ids, st.uuids())

TURN = "018f0000-0000-7000-8000-000000000001"
GOOD = {"v": 1, "tenant_id": "t", "session_id": "s", "turn_id": TURN}


@settings(deadline=None)
@given(wake_ups)
def test_what_is_encoded_is_decoded_unchanged(wake_up: WakeUp) -> None:
    assert decode(wake_up.encode()) == wake_up


def test_the_body_carries_ids_and_the_version_only() -> None:
    assert json.loads(WakeUp("t", "s", UUID(TURN)).encode()) == GOOD


def test_the_longest_ids_fit_into_a_body() -> None:
    longest = WakeUp("t" * 128, "s" * 128, UUID(int=2**128 - 1))

    assert decode(longest.encode()) == longest


def test_a_field_that_a_later_version_may_add_is_ignored() -> None:
    assert decode(json.dumps({**GOOD, "later": True})) == WakeUp("t", "s", UUID(TURN))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "body is not JSON"),
        ("hello", "body is not JSON"),
        ('{"v": 1,', "body is not JSON"),
        ("[" * 1000, "body is not JSON"),
        ('{"v": ' + "9" * 5000 + "}", f"body has 5007 characters, more than {MAX_BODY_CHARACTERS}"),
        ("null", "body is not a JSON object"),
        ("[]", "body is not a JSON object"),
        ('"v"', "body is not a JSON object"),
        ("{}", "unknown message version"),
        (json.dumps({**GOOD, "v": 2}), "unknown message version"),
        (json.dumps({**GOOD, "v": "1"}), "unknown message version"),
        (json.dumps({**GOOD, "v": True}), "unknown message version"),
        (json.dumps({**GOOD, "v": None}), "unknown message version"),
        (json.dumps({**GOOD, "tenant_id": None}), "tenant_id is missing or not an id"),
        (json.dumps({**GOOD, "tenant_id": ""}), "tenant_id is missing or not an id"),
        (json.dumps({**GOOD, "tenant_id": "t" * 129}), "tenant_id is missing or not an id"),
        (json.dumps({**GOOD, "tenant_id": "a b"}), "tenant_id is missing or not an id"),
        (json.dumps({**GOOD, "session_id": 7}), "session_id is missing or not an id"),
        (json.dumps({**GOOD, "session_id": "s\n"}), "session_id is missing or not an id"),
        (json.dumps({**GOOD, "session_id": "{s}"}), "session_id is missing or not an id"),
        (json.dumps({**GOOD, "session_id": "é"}), "session_id is missing or not an id"),
        (json.dumps({"v": 1, "tenant_id": "t", "session_id": "s"}), "turn_id is missing"),
        (json.dumps({**GOOD, "turn_id": 7}), "turn_id is missing"),
        (json.dumps({**GOOD, "turn_id": "7"}), "turn_id is not a UUID"),
        (json.dumps({**GOOD, "turn_id": "x" * 36}), "turn_id is not a UUID"),
    ],
)
def test_a_body_that_is_not_ours_is_refused_with_the_reason(body: str, reason: str) -> None:
    with pytest.raises(MalformedMessageError) as refused:
        decode(body)

    assert refused.value.reason == reason


@settings(deadline=None)
@given(st.text(st.characters(), max_size=200) | st.recursive(st.none() | st.text(max_size=5), st.lists).map(json.dumps))
def test_any_other_text_is_malformed_and_raises_nothing_else(body: str) -> None:
    with pytest.raises(MalformedMessageError):
        decode(body)


@pytest.mark.parametrize("text", ["a", "A.b_c:d-9", "x" * 128])
def test_an_id_may_be(text: str) -> None:
    assert is_valid_id(text)


@pytest.mark.parametrize("text", ["", "x" * 129, "a/b", "a b", "a\n", "ä", "{a}", "a\x00"])
def test_an_id_may_not_be(text: str) -> None:
    assert not is_valid_id(text)
