"""The file of keys: read as a whole, or refused with what to do."""

import json
from uuid import UUID

import pytest

from tests.support.sealing import key_text
from turnstile.sealing.data_keys import parse_keys
from turnstile.sealing.envelope import seal
from turnstile.sealing.place import Place

KEY = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
OTHER = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="


def test_one_key_seals_and_all_open() -> None:
    keys = parse_keys(json.dumps({"seal_with": "new", "keys": {"new": KEY, "old": OTHER}}))

    assert set(keys.by_id) == {"new", "old"}
    assert keys.seals_with is keys.by_id["new"]


def test_a_file_may_have_keys_that_open_only() -> None:
    assert parse_keys(key_text(seal_with=None)).seals_with is None


def test_a_key_seals_and_hashes_as_in_every_version_before() -> None:
    """What is stored must open, and a repeated submit be known, whatever the program's version. Each has a key of its own."""
    key = parse_keys(key_text()).by_id["k1"]
    place = Place("t", "s", UUID(int=1), "message:user")

    assert seal("hi", place, key, bytes(12)) == "sealed:1:k1:AAAAAAAAAAAAAAAAI2IJzrHcj57i6YGUolJA18Ms"
    assert key.hash(b"digest").hex() == "d4854a6507e8688c6ba9dabd36935f18bf7da84164cce10b118b9f08cf069d66"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not JSON: .* at line 1"),
        ("[" * 100_000, "nested too deep|is not JSON"),
        ("[]", "must be an object with exactly"),
        (json.dumps({"keys": {"a": KEY}}), "must be an object with exactly"),
        (json.dumps({"seal_with": "a", "keys": {"a": KEY}, "more": 1}), "must be an object with exactly"),
        (json.dumps({"seal_with": None, "keys": {}}), "a key for each id"),
        (json.dumps({"seal_with": None, "keys": [KEY]}), "a key for each id"),
        (json.dumps({"seal_with": "b", "keys": {"a": KEY}}), '"seal_with" must be the id of one of the keys'),
        (json.dumps({"seal_with": ["a"], "keys": {"a": KEY}}), '"seal_with" must be the id of one of the keys'),
        (json.dumps({"seal_with": "a:b", "keys": {"a:b": KEY}}), "the id of a key must be"),
        (json.dumps({"seal_with": "a", "keys": {"a": KEY, "b": KEY}}), "two ids have the same key"),
        (f'{{"seal_with": "a", "keys": {{"a": "{KEY}", "a": "{OTHER}"}}}}', "a member twice"),
    ],
)
def test_a_bad_file_is_refused_with_what_to_do(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_keys(text)


@pytest.mark.parametrize("value", ["", "c2hvcnQ=", KEY[:-1], KEY + "!", "é" * 32, 7, None, {"kms": "x"}])
def test_a_key_of_another_form_is_named_by_its_id_only(value: object) -> None:
    with pytest.raises(ValueError, match="key mine must be 32 random bytes in base64") as caught:
        parse_keys(json.dumps({"seal_with": None, "keys": {"mine": value}}))

    assert not value or str(value) not in str(caught.value)
    assert caught.value.__cause__ is None


def test_no_repr_has_a_key() -> None:
    keys = parse_keys(json.dumps({"seal_with": "a", "keys": {"a": KEY}}))

    assert "AAAA" not in repr(keys) + repr(keys.by_id["a"]) + repr(vars(type(keys.by_id["a"])))
    assert repr(keys.by_id["a"]) == "DataKey('a')"
