"""The form of the credentials that Turnstile makes: `tsk_`, 16 hex digits, `_`, 43 characters of secret. Pure.

Those of browser tokens begin with `tst_`. The first part is the id. It is no secret: lists and logs show it, and the API finds
the row by it. The tables have only the SHA-256 of the whole. A slow hash would protect nothing: nobody can try 2^256 secrets.
"""

import hashlib
import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field

ID_BYTES = 8
SECRET_BYTES = 32
ID_RULE = "`tsk_` and 16 hex digits"

_ID = re.compile(r"tsk_[0-9a-f]{16}")
_KEY = re.compile(r"(ts[kt]_[0-9a-f]{16})_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key, or a browser token, as a client presents it."""

    key_id: str
    digest: bytes = field(repr=False)

    @property
    def is_token(self) -> bool:
        return self.key_id.startswith("tst_")


def make_key(random_id: bytes, secret: bytes) -> tuple[str, ApiKey]:
    """A new key of ID_BYTES and SECRET_BYTES random bytes: its text, and what is stored of it."""
    return _make("tsk", random_id, secret)


def make_token(random_id: bytes, secret: bytes) -> tuple[str, ApiKey]:
    """The same of a browser token."""
    return _make("tst", random_id, secret)


def _make(mark: str, random_id: bytes, secret: bytes) -> tuple[str, ApiKey]:
    key_id = f"{mark}_{random_id.hex()}"
    text = f"{key_id}_{urlsafe_b64encode(secret).decode().rstrip('=')}"
    return text, ApiKey(key_id, _digest(text))


def read_key(text: str) -> ApiKey | None:
    """The id and the digest of a key; None if the text does not have the form of one."""
    found = _KEY.fullmatch(text)
    return None if found is None else ApiKey(found[1], _digest(text))


def is_key_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
