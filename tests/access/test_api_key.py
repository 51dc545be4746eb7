"""The form of an API key."""

import hashlib

import pytest

from turnstile.access.api_key import is_key_id, make_key, make_token, read_key

TEXT, KEY = make_key(bytes(range(8)), bytes(range(32)))


def test_a_key_begins_with_its_id_and_is_stored_as_a_digest() -> None:
    assert TEXT == "tsk_0001020304050607_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert (KEY.key_id, KEY.digest) == ("tsk_0001020304050607", hashlib.sha256(TEXT.encode()).digest())
    assert read_key(TEXT) == KEY


def test_a_token_of_a_page_has_another_mark() -> None:
    text, token = make_token(bytes(8), bytes(32))
    assert (text[:4], token.is_token, KEY.is_token, read_key(text)) == ("tst_", True, False, token)
    assert not is_key_id(token.key_id)


def test_a_digest_is_not_printed() -> None:
    assert str(KEY) == "ApiKey(key_id='tsk_0001020304050607')"


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:-1],
        TEXT + "A",
        TEXT + "\n",
        TEXT.upper(),
        "tsk_" + TEXT,
        TEXT.replace("_", "-"),
        "tsk_\u0661" + TEXT[5:],
    ],
)
def test_other_texts_are_no_keys(text: str) -> None:
    assert read_key(text) is None


@pytest.mark.parametrize(
    ("text", "is_id"), [(KEY.key_id, True), (TEXT, False), (KEY.key_id[:-1], False), (KEY.key_id + "\n", False)]
)
def test_an_id_is_the_first_part_alone(text: str, is_id: bool) -> None:
    assert is_key_id(text) is is_id
