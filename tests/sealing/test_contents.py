"""Contents: sealed with keys, plain without, and always read back as they were."""

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sealing import contents
from turnstile.errors import BrokenSealError, KeyMissingError
from turnstile.sealing.contents import PLAIN, Contents, Unopened
from turnstile.sealing.place import Place
from turnstile.turn.stored_json import encode

HERE = Place("t", "s", UUID(int=1), "message:user")
SEALED, OPENING, OTHER = contents("k1"), contents("k1", seal_with=None), contents("k2", seal_with="k2")
DIGEST = bytes(range(32))

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just("sealed:1:k1:AAAA"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
writers = st.sampled_from([PLAIN, SEALED, OPENING])


@given(values, writers)
def test_json_comes_back_as_it_was(value: Any, writer: Contents) -> None:
    text = encode(value)
    stored = writer.seal_json(text, HERE)

    assert SEALED.open_json(json.loads(stored), HERE) == value
    assert SEALED.open_json_text(stored, HERE) == text
    assert isinstance(json.loads(stored), str) or not writer.seals


@given(st.text(), writers)
def test_a_text_comes_back_as_it_was(text: str, writer: Contents) -> None:
    assert SEALED.open(writer.seal(text, HERE), HERE) == text


@given(values)
def test_without_keys_a_content_is_stored_as_it_is(value: Any) -> None:
    text = encode(value)

    assert PLAIN.seal_json(text, HERE) == text or value.startswith("sealed:")


def test_what_was_stored_before_the_first_key_stays_readable() -> None:
    assert SEALED.open_json({"say": "hi"}, HERE) == {"say": "hi"}
    assert SEALED.open("an error", HERE) == "an error"
    assert SEALED.open_optional(None, HERE) is None


def test_the_same_text_is_never_sealed_alike() -> None:
    assert SEALED.seal("hi", HERE) != SEALED.seal("hi", HERE)
    assert SEALED.seal_json('"hi"', HERE) != SEALED.seal_json('"hi"', HERE)


def test_a_process_without_the_key_says_so() -> None:
    stored = SEALED.seal("hi", HERE)
    for reader in (PLAIN, OTHER):
        with pytest.raises(KeyMissingError):
            reader.open(stored, HERE)
        assert reader.show(stored, HERE) == (
            "(sealed under key k1, which this process does not have: add the key to the file that "
            "TURNSTILE_SEALING_KEYS_FILE names)"
        )


def test_one_unreadable_content_does_not_fail_the_others() -> None:
    unopened = PLAIN.try_json(json.loads(SEALED.seal_json('"hi"', HERE)), HERE)

    assert isinstance(unopened, Unopened)
    assert isinstance(unopened.error, KeyMissingError)
    assert PLAIN.try_json({"say": "hi"}, HERE) == {"say": "hi"}


def test_a_forged_seal_is_not_a_content() -> None:
    with pytest.raises(BrokenSealError):
        SEALED.open_json("sealed:1:k1:AAAA", HERE)


def test_a_fingerprint_can_be_compared_and_not_guessed() -> None:
    stored = SEALED.hide_fingerprint(DIGEST, "t")

    assert DIGEST not in stored
    assert SEALED.is_fingerprint(stored, DIGEST, "t")
    assert not SEALED.is_fingerprint(stored, bytes(32), "t")
    assert not SEALED.is_fingerprint(stored, DIGEST, "other")


def test_a_fingerprint_outlives_a_rotation() -> None:
    rotated = contents("k1", "k2", seal_with="k2")

    assert rotated.is_fingerprint(SEALED.hide_fingerprint(DIGEST, "t"), DIGEST, "t")
    assert rotated.is_fingerprint(PLAIN.hide_fingerprint(DIGEST, "t"), DIGEST, "t")
    with pytest.raises(KeyMissingError):
        PLAIN.is_fingerprint(SEALED.hide_fingerprint(DIGEST, "t"), DIGEST, "t")


def test_without_keys_a_fingerprint_is_stored_as_it_is() -> None:
    assert PLAIN.hide_fingerprint(DIGEST, "t") == DIGEST
