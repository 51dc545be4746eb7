"""Seals contents before they are stored, and opens them after they were read: the one object that processes pass around.

Sealed and plain contents stand beside each other: each content says which it is, so a deployment may begin to seal at any time.
"""

import hmac
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnstile.errors import BrokenSealError, ContentsUnreadableError, KeyMissingError
from turnstile.sealing.envelope import MARK, NONCE_BYTES, is_left_plain, is_marked, key_of, leave_plain, seal, unseal
from turnstile.sealing.place import Place

if TYPE_CHECKING:
    # Imports the library of the cipher.
    from turnstile.sealing.data_keys import DataKeys

_FINGERPRINT_BYTES = 32
_HASHED = b"\x01"
_JSON_MARK = f'"{MARK}'


@dataclass(frozen=True, slots=True)
class Unopened:
    """In place of a content that this process can't open: whoever needs it raises the error."""

    error: ContentsUnreadableError


class Contents:
    """Without keys it stores contents as they are, and still says clearly which ones it can't open."""

    def __init__(self, keys: "DataKeys | None" = None, random: Callable[[int], bytes] = os.urandom) -> None:
        """`random` makes the nonces. Never from a buffer: a forked process would use the same nonces again."""
        self._keys = keys
        self._key = None if keys is None else keys.seals_with
        self._random = random

    def __repr__(self) -> str:
        return f"Contents({self._keys!r})"

    @property
    def seals(self) -> bool:
        """Whether contents are stored sealed from now on."""
        return self._key is not None

    # --- texts

    def seal(self, text: str, place: Place) -> str:
        """The stored form of a text."""
        if self._key is None:
            return leave_plain(text)
        return seal(text, place, self._key, self._random(NONCE_BYTES))

    def open(self, stored: str, place: Place) -> str:
        """The text. Raises ContentsUnreadableError."""
        return unseal(stored, place, self._keys) if is_marked(stored) else stored

    def open_sealed(self, stored: str, place: Place) -> str:
        """The text, from a store that others can write to. Raises ContentsUnreadableError, for a plain text, too, if this process
        seals."""
        if self.seals and (not is_marked(stored) or is_left_plain(stored)):
            raise BrokenSealError(place.column)
        return self.open(stored, place)

    def seal_optional(self, text: str | None, place: Place) -> str | None:
        return None if text is None else self.seal(text, place)

    def open_optional(self, stored: str | None, place: Place) -> str | None:
        return None if stored is None else self.open(stored, place)

    def show(self, stored: str | None, place: Place) -> str | None:
        """The text, or in its place why it can't be opened: for texts that are shown, and that nothing depends on."""
        try:
            return self.open_optional(stored, place)
        except ContentsUnreadableError as error:
            return f"({error})"

    # --- JSON

    def seal_json(self, text: str, place: Place) -> str:
        """The stored form of a JSON text, which is a JSON text, too: a sealed one is a string."""
        if self._key is None:
            return f'"{leave_plain(text[1:-1])}"' if text.startswith(_JSON_MARK) else text
        return f'"{seal(text, place, self._key, self._random(NONCE_BYTES))}"'

    def open_json(self, stored: Any, place: Place) -> Any:
        """The value, from the value that was stored. Raises ContentsUnreadableError."""
        if not isinstance(stored, str) or not is_marked(stored):
            return stored
        opened = unseal(stored, place, self._keys)
        return opened if is_left_plain(stored) else json.loads(opened)

    def open_json_text(self, stored: str, place: Place) -> str:
        """The same, for the JSON texts of both."""
        if not stored.startswith(_JSON_MARK):
            return stored
        inner = stored[1:-1]
        opened = unseal(inner, place, self._keys)
        return f'"{opened}"' if is_left_plain(inner) else opened

    def try_json(self, stored: Any, place: Place) -> Any:
        """The value, or an Unopened: for reads of many, of which one must not fail the others."""
        try:
            return self.open_json(stored, place)
        except ContentsUnreadableError as error:
            return Unopened(error)

    # --- other keys

    @property
    def sealing_key_id(self) -> str | None:
        """The id of the key that seals; None: this process seals nothing."""
        return None if self._key is None else self._key.id

    def reseal(self, stored: str, place: Place) -> str:
        """The stored form under the key that seals; the same text if it is under that key. Raises ContentsUnreadableError."""
        is_current = is_marked(stored) and key_of(stored) == self.sealing_key_id
        return stored if is_current else self.seal(self.open(stored, place), place)

    def reseal_json(self, stored: str, place: Place) -> str:
        """The same for JSON texts."""
        if stored.startswith(_JSON_MARK) and key_of(stored[1:-1]) == self.sealing_key_id:
            return stored
        return self.seal_json(self.open_json_text(stored, place), place)

    # --- fingerprints

    def hide_fingerprint(self, digest: bytes, tenant_id: str) -> bytes:
        """The stored form of a SHA-256 of contents, by which short contents could be guessed."""
        if self._key is None:
            return digest
        return _HASHED + self._key.id.encode() + self._key.hash(tenant_id.encode() + b"\n" + digest)

    def is_fingerprint(self, stored: bytes, digest: bytes, tenant_id: str) -> bool:
        """Whether a stored fingerprint is of this digest. Raises KeyMissingError."""
        if len(stored) == _FINGERPRINT_BYTES or not stored.startswith(_HASHED):
            return hmac.compare_digest(stored, digest)
        key_id, hashed = (
            stored[len(_HASHED) : -_FINGERPRINT_BYTES].decode("ascii", "replace"),
            stored[-_FINGERPRINT_BYTES:],
        )
        if self._keys is None or (key := self._keys.by_id.get(key_id)) is None:
            raise KeyMissingError(key_id)
        return hmac.compare_digest(hashed, key.hash(tenant_id.encode() + b"\n" + digest))


PLAIN = Contents()
"""Of a process without keys."""
