"""The signature that proves the origin of a webhook: the headers of the Standard Webhooks convention, and the secrets. Pure.

HMAC-SHA256 over `id.timestamp.body`. The id is the same for every try of one event, so that a receiver can detect repeats. The
timestamp is that of the try, so that a receiver can refuse old ones. With two secrets there are two signatures, so a secret can
be changed without a gap.

Each tenant has secrets of its own, or one tenant could forge what another gets. They are derived and stored nowhere: the database
has only which of them sign.
"""

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"  # noqa: S105 - how a secret begins
MIN_SECRET_BYTES, MAX_SECRET_BYTES = 24, 64


def read_secret(text: str) -> bytes:
    """The key in `whsec_<base64>`. Raises ValueError, which quotes no part of the text."""
    try:
        key = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except Error:
        key = b""
    if not text.startswith(SECRET_PREFIX) or not MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES:
        raise ValueError(
            f"must be {SECRET_PREFIX} and the base64 form of {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES} random bytes"
        )
    return key


def derive_secret(root: str, tenant_id: str, number: int) -> str:
    """The tenant's secret of this number, from a secret of the settings. Nobody finds the root, or another secret, from it."""
    about = f"turnstile webhook secret\0{tenant_id}\0{number}".encode()
    return SECRET_PREFIX + b64encode(hmac.digest(read_secret(root), about, hashlib.sha256)).decode()


def signed_headers(secrets: Sequence[str], event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers. `timestamp` is in whole seconds since 1970; `event_id` has no dot."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    signatures = [b64encode(hmac.digest(read_secret(secret), signed, hashlib.sha256)).decode() for secret in secrets]
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
