"""The data keys of a process: one of them seals, all of them open. Pure: `config.sealing_keys` reads the file.

A process without keys does not import this module, nor the library behind it.

    {"seal_with": "2026-11", "keys": {"2026-11": "<32 bytes in base64>", "2026-05": "<32 bytes in base64>"}}

In place of its base64, a key may be `{"kms": "<base64>"}`: sealed by AWS KMS, which opens it at the start.

No error and no `repr` contains a key. Keys are told by their ids only.
"""

import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from turnstile.sealing.envelope import KEY_ID_RULE, is_key_id

KEY_BYTES = 32

_MAKE_ONE = "`openssl rand -base64 32` makes one"


class DataKey:
    """A key by its id: its cipher, and its keyed hash. Each has a key of its own, derived from the one in the file."""

    __slots__ = ("_cipher", "_hash_key", "id")

    def __init__(self, key_id: str, secret: bytes) -> None:
        self.id = key_id
        self._cipher = AESGCM(_derive(secret, b"turnstile contents"))
        self._hash_key = _derive(secret, b"turnstile fingerprints")

    def __repr__(self) -> str:
        return f"DataKey({self.id!r})"

    def encrypt(self, nonce: bytes, content: bytes, bound_to: bytes) -> bytes:
        return self._cipher.encrypt(nonce, content, bound_to)

    def decrypt(self, nonce: bytes, sealed: bytes, bound_to: bytes) -> bytes:
        """Raises ValueError for anything but what this key has sealed for the same place."""
        try:
            return self._cipher.decrypt(nonce, sealed, bound_to)
        except InvalidTag:
            raise ValueError("the tag does not fit") from None

    def hash(self, content: bytes) -> bytes:
        """HMAC-SHA-256."""
        return hmac.digest(self._hash_key, content, hashlib.sha256)


@dataclass(frozen=True, slots=True)
class DataKeys:
    """All keys of a process."""

    by_id: Mapping[str, DataKey] = field(repr=False)
    seals_with: DataKey | None
    """None: the process opens contents, and seals none."""


OpenByKms = Callable[[str, bytes], bytes]
"""From the id of a key, and what KMS has sealed, to the key."""


def parse_keys(text: str, open_by_kms: OpenByKms | None = None) -> DataKeys:
    """Reads the whole file. Raises ValueError, which names the key by its id and says what to do; and what `open_by_kms` does."""
    try:
        document = json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        # Without the error's document, which has the keys.
        raise ValueError(f"is not JSON: {error.msg} at line {error.lineno}") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    if not isinstance(document, dict) or document.keys() != {"seal_with", "keys"}:
        raise ValueError('must be an object with exactly "seal_with" and "keys"')
    given, seals_with = document["keys"], document["seal_with"]
    if not isinstance(given, dict) or not given:
        raise ValueError(f'"keys" must be an object with a key for each id; {_MAKE_ONE}')
    secrets = {key_id: _read_key(key_id, value, open_by_kms) for key_id, value in given.items()}
    if len(set(secrets.values())) < len(secrets):
        raise ValueError(f"two ids have the same key: give each id a key of its own; {_MAKE_ONE}")
    keys = {key_id: DataKey(key_id, secret) for key_id, secret in secrets.items()}
    if seals_with is not None and (not isinstance(seals_with, str) or seals_with not in keys):
        raise ValueError('"seal_with" must be the id of one of the keys, or null to seal nothing')
    return DataKeys(keys, None if seals_with is None else keys[seals_with])


def _read_key(key_id: str, value: Any, open_by_kms: OpenByKms | None) -> bytes:
    if not is_key_id(key_id):
        raise ValueError(f"the id of a key must be {KEY_ID_RULE}")
    match value:
        case str():
            secret = _from_base64(value)
        case {"kms": str(sealed), **others} if open_by_kms is not None and not others and _from_base64(sealed):
            secret = open_by_kms(key_id, _from_base64(sealed))
        case _:
            secret = b""
    if len(secret) != KEY_BYTES:
        raise ValueError(
            f"key {key_id} must be {KEY_BYTES} random bytes in base64, or such a key sealed by KMS; {_MAKE_ONE}"
        )
    return secret


def _from_base64(text: str) -> bytes:
    """Nothing for what is not base64."""
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError:
        return b""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        # The parser would take the last one without a word.
        raise ValueError("has a member twice in one object")
    return found


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(secret)
