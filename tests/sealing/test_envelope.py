"""Seals: what they keep, what they refuse, and what their errors say."""

import base64
import traceback
from contextlib import suppress
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.sealing import key_text
from turnstile.errors import BrokenSealError, ContentsUnreadableError, KeyMissingError
from turnstile.sealing.data_keys import DataKeys, parse_keys
from turnstile.sealing.envelope import MARK, key_of, leave_plain, seal, unseal
from turnstile.sealing.place import Place

KEYS = parse_keys(key_text(("k1", "k2")))
K1 = KEYS.by_id["k1"]
TURN, OTHER_TURN = UUID(int=1), UUID(int=2)
HERE = Place("t", "s", TURN, "message:user")
CANARY = "canary-4711"

texts = st.text()
nonces = st.binary(min_size=12, max_size=12)
ids = st.from_regex(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,20}", fullmatch=True)
places = st.builds(Place, ids, ids, st.none() | st.uuids(), st.text(max_size=20))


def everything_in(error: BaseException) -> str:
    """What a log of the error could have, with its causes."""
    return "".join(traceback.format_exception(error, chain=True)) + repr(error) + repr(vars(error))


@given(texts, places, nonces)
def test_what_was_sealed_opens_at_its_place(text: str, place: Place, nonce: bytes) -> None:
    sealed = seal(text, place, K1, nonce)

    assert unseal(sealed, place, KEYS) == text
    assert key_of(sealed) == "k1"


@given(texts)
def test_a_plain_text_is_never_taken_for_a_sealed_one(text: str) -> None:
    for one in (text, MARK + text, seal(text, HERE, K1, bytes(12))):
        stored = leave_plain(one)

        assert (unseal(stored, HERE, None) if stored.startswith(MARK) else stored) == one


@given(texts, nonces, st.data())
def test_any_flipped_bit_is_refused(text: str, nonce: bytes, data: st.DataObject) -> None:
    head, _, body = seal(text, HERE, K1, nonce).rpartition(":")
    changed = bytearray(base64.b64decode(body))
    at = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[at // 8] ^= 1 << at % 8

    with pytest.raises(BrokenSealError):
        unseal(f"{head}:{base64.b64encode(changed).decode()}", HERE, KEYS)


@given(texts, nonces, st.data())
def test_any_changed_character_is_refused_or_means_the_same(text: str, nonce: bytes, data: st.DataObject) -> None:
    sealed = seal(text, HERE, K1, nonce)
    at = data.draw(st.integers(len(MARK), len(sealed) - 1))
    changed = sealed[:at] + data.draw(st.characters()) + sealed[at + 1 :]
    assume(not changed.startswith(f"{MARK}0:"))

    with suppress(ContentsUnreadableError):
        # The last character of a base64 text has bits that mean nothing.
        assert unseal(changed, HERE, KEYS) == text


@given(texts, places, places)
def test_at_another_place_it_does_not_open(text: str, place: Place, other: Place) -> None:
    assume(place != other)
    sealed = seal(text, place, K1, bytes(12))

    with pytest.raises(BrokenSealError):
        unseal(sealed, other, KEYS)


@pytest.mark.parametrize(
    "other",
    [
        Place("other", "s", TURN, "message:user"),
        Place("t", "other", TURN, "message:user"),
        Place("t", "s", OTHER_TURN, "message:user"),
        Place("t", "s", None, "message:user"),
        Place("t", "s", TURN, "message:assistant"),
    ],
)
def test_each_part_of_the_place_is_bound(other: Place) -> None:
    sealed = seal(CANARY, HERE, K1, bytes(12))

    with pytest.raises(BrokenSealError):
        unseal(sealed, other, KEYS)


def test_the_id_of_the_key_is_bound() -> None:
    # A file that calls the same key by another id.
    renamed = DataKeys({"k2": K1}, None)
    sealed = seal(CANARY, HERE, K1, bytes(12)).replace(":k1:", ":k2:")

    with pytest.raises(BrokenSealError):
        unseal(sealed, HERE, renamed)


@pytest.mark.parametrize("keys", [None, parse_keys(key_text(("k2",), "k2"))])
def test_a_missing_key_is_named(keys: DataKeys | None) -> None:
    with pytest.raises(KeyMissingError, match=r"sealed under key k1, .*TURNSTILE_SEALING_KEYS_FILE") as caught:
        unseal(seal(CANARY, HERE, K1, bytes(12)), HERE, keys)

    assert caught.value.key_id == "k1"


@pytest.mark.parametrize(
    "forged",
    [
        *("sealed:", "sealed:1", "sealed:1:", "sealed:1:k1", "sealed:1:k1:", "sealed:1:k1:AAAA", "sealed:2:k1:AAAA"),
        *("sealed:1:k1:é", "sealed:1:k1:====", "sealed:1:k 1:AAAA", f"sealed:1:k1:{CANARY}"),
    ],
)
def test_what_no_program_has_sealed_is_refused(forged: str) -> None:
    with pytest.raises(BrokenSealError) as caught:
        unseal(forged, HERE, KEYS)

    assert CANARY not in everything_in(caught.value)


def test_no_error_has_the_text_or_its_key() -> None:
    sealed = seal(CANARY, HERE, K1, bytes(12))
    for call in (
        lambda: unseal(sealed, HERE, None),
        lambda: unseal(sealed[:-4] + "AAA=", HERE, KEYS),
        lambda: unseal(sealed, Place("t", "s", TURN, "error"), KEYS),
        lambda: seal(CANARY + "\ud800", HERE, K1, bytes(12)),
    ):
        with pytest.raises((ContentsUnreadableError, UnicodeEncodeError)) as caught:
            call()

        # The traceback quotes lines of this file, which name the canary only as a variable.
        assert CANARY not in everything_in(caught.value)
        assert getattr(caught.value, "object", "") == ""


@given(texts, nonces)
def test_the_stored_form_needs_no_escapes_in_json(text: str, nonce: bytes) -> None:
    assert set(seal(text, HERE, K1, nonce)) <= set(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=:._-"
    )
