"""The form of a sealed text: `sealed:1:<key id>:<base64 of nonce, ciphertext and tag>`. Pure: the nonce is an argument.

A plain text may begin with `sealed:`, too. Such a text is stored as `sealed:0:<text>`, with or without keys, so that no text of a
user is taken for a sealed one.
"""

import binascii
import re
from typing import TYPE_CHECKING

from turnstile.errors import BrokenSealError, KeyMissingError
from turnstile.sealing.place import Place

if TYPE_CHECKING:
    # Imports the library of the cipher.
    from turnstile.sealing.data_keys import DataKey, DataKeys

MARK = "sealed:"
NONCE_BYTES = 12
KEY_ID_RULE = "1 to 32 of a-z A-Z 0-9 . _ -"

_PLAIN = f"{MARK}0:"
_SEALED = f"{MARK}1:"
_TAG_BYTES = 16
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,32}")


def is_key_id(text: str) -> bool:
    return _KEY_ID.fullmatch(text) is not None


def is_marked(text: str) -> bool:
    """Whether a stored text is not the content itself."""
    return text.startswith(MARK)


def is_left_plain(stored: str) -> bool:
    """Whether a marked text is plain behind its mark."""
    return stored.startswith(_PLAIN)


def leave_plain(text: str) -> str:
    """The stored form of a text that is not sealed."""
    return f"{_PLAIN}{text}" if text.startswith(MARK) else text


def seal(text: str, place: Place, key: "DataKey", nonce: bytes) -> str:
    """The stored form of a text that is sealed. A nonce must never be used again with the same key.

    Raises UnicodeEncodeError, without the text, for half of a surrogate pair.
    """
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        # The error of the codec has the whole text.
        raise UnicodeEncodeError(error.encoding, "", 0, 0, error.reason) from None
    sealed = key.encrypt(nonce, content, place.bound_to(key.id))
    return f"{_SEALED}{key.id}:{binascii.b2a_base64(nonce + sealed, newline=False).decode('ascii')}"


def unseal(stored: str, place: Place, keys: "DataKeys | None") -> str:
    """The content of a marked text. Raises KeyMissingError or BrokenSealError; neither has any of the text."""
    if is_left_plain(stored):
        return stored[len(_PLAIN) :]
    key_id = key_of(stored)
    if key_id is None:
        raise BrokenSealError(place.column)
    if keys is None or (key := keys.by_id.get(key_id)) is None:
        raise KeyMissingError(key_id)
    try:
        both = binascii.a2b_base64(stored[len(_SEALED) + len(key_id) + 1 :].encode("ascii"), strict_mode=True)
        if len(both) < NONCE_BYTES + _TAG_BYTES:
            raise BrokenSealError(place.column)
        return key.decrypt(both[:NONCE_BYTES], both[NONCE_BYTES:], place.bound_to(key_id)).decode()
    except ValueError:
        # Not from the codec's error, which has what it could not decode.
        raise BrokenSealError(place.column) from None


def key_of(stored: str) -> str | None:
    """The id of the key that sealed a text. None: it is not sealed, or no version of this program has sealed it."""
    key_id, colon, _ = stored[len(_SEALED) :].partition(":")
    return key_id if stored.startswith(_SEALED) and colon and is_key_id(key_id) else None
